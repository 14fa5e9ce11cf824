// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/incoming_channel.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point_operation.h"
#include "shoal/comm/point_to_point_options.h"

namespace shoal::internal {

using State = PointToPointOperation::State;

namespace {

std::size_t MessageBytes(const MessageHeader& header) {
  return static_cast<std::size_t>(header.signature.count) *
         DTypeSize(header.signature.dtype);
}

// memcpy for memory that may be null where there is nothing to copy.
void CopyBytes(const std::uint8_t* from, std::size_t bytes, std::uint8_t* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Room for a part of a header, and for a whole small message. Of a larger one
// this much is read with its header and copied; the rest goes to its place.
std::size_t ReadAheadBytes(const PointToPointOptions& options) {
  return 2 * kMessageHeaderSize +
         std::min(options.eager_bytes, std::size_t{16 * 1024});
}

std::uint8_t* Memory(const PointToPointOperation& receive) {
  return static_cast<std::uint8_t*>(receive.call.output);
}

}  // namespace

IncomingChannel::IncomingChannel(int rank, int peer,
                                 const PointToPointOptions& options,
                                 EngineFault* fault)
    : rank_(rank),
      peer_(peer),
      options_(options),
      fault_(fault),
      available_(options.credit_bytes) {}

void IncomingChannel::SetLink(Link* link) {
  if (link_ != nullptr) {
    RaiseCorrupt("it opened a second connection to send on");
    return;
  }
  link_ = link;
  read_ahead_ = std::make_unique<std::uint8_t[]>(ReadAheadBytes(options_));
}

// What a Recv meets ----------------------------------------------------------

void IncomingChannel::Start(PointToPointOperation* receive) {
  const auto unexpected = std::find_if(
      unexpected_.begin(), unexpected_.end(), [&](const Unexpected& message) {
        return message.header.tag == receive->call.tag;
      });
  if (unexpected != unexpected_.end()) {
    TakeUnexpected(unexpected, receive);
  } else {
    started_.PushBack(receive);
  }
  if (read_ended_ && receive->state != State::kDone) RaiseLost(*receive);
}

void IncomingChannel::TakeUnexpected(std::list<Unexpected>::iterator unexpected,
                                     PointToPointOperation* receive) {
  if (!CheckMatch(*receive, unexpected->header)) return;
  if (unexpected->header.kind == MessageKind::kAnnounce) {
    AskFor(receive, unexpected->header.sequence);
    --unexpected_announcements_;
  } else if (unexpected->complete) {
    CopyBytes(unexpected->payload.get(), receive->bytes, Memory(*receive));
    Owe(receive->bytes);
    receive->state = State::kDone;
  } else {
    // Just coming in: the rest goes straight to its place.
    CopyBytes(unexpected->payload.get(), payload_read_, Memory(*receive));
    payload_ = Memory(*receive);
    receiving_ = receive;
    unpaid_ = kMessageHeaderSize + receive->bytes;
  }
  unexpected_.erase(unexpected);
}

PointToPointOperation* IncomingChannel::TakeStarted(std::int32_t tag) {
  return started_.Take([tag](const PointToPointOperation& receive) {
    return receive.call.tag == tag;
  });
}

Call IncomingChannel::SenderCall(const MessageHeader& header) const {
  Call call;
  call.signature = header.signature;
  call.peer = rank_;
  call.tag = header.tag;
  return call;
}

void IncomingChannel::AskFor(PointToPointOperation* receive,
                             std::uint64_t sequence) {
  receive->sequence = sequence;
  receive->state = State::kAnnounced;
  announced_.PushBack(receive);
  if (write_ended_) RaiseLost(*receive);
}

bool IncomingChannel::CheckMatch(const PointToPointOperation& receive,
                                 const MessageHeader& header) {
  const CallSignature& sent = header.signature;
  const CallSignature& asked = receive.call.signature;
  if (sent.count == asked.count && sent.dtype == asked.dtype) return true;
  fault_->Raise(
      EngineFault::Kind::kMismatch, peer_,
      absl::FailedPreconditionError(absl::StrCat(
          "rank ", peer_, " called ", SenderCall(header).ToString(),
          " where rank ", rank_, " called ", receive.call.ToString(),
          "; a Send and its Recv must have the same count and type")));
  return false;
}

// What comes in --------------------------------------------------------------

bool IncomingChannel::Read() {
  bool moved = false;
  while (fault_->ok() && !read_ended_) {
    const std::size_t payload_left = payload_bytes_ - payload_read_;
    const std::size_t space = ReadAheadBytes(options_) - read_ahead_size_;
    const iovec pieces[] = {
        {payload_left > 0 ? payload_ + payload_read_ : nullptr, payload_left},
        {read_ahead_.get() + read_ahead_size_, space}};
    const LinkResult result = link_->TryRead(pieces);
    if (result.state == LinkState::kEnded) {
      EndReading();
      return moved;
    }
    if (result.state == LinkState::kWouldBlock) return moved;
    if (result.bytes > 0) moved = true;
    const std::size_t to_payload = std::min(result.bytes, payload_left);
    payload_read_ += to_payload;
    read_ahead_size_ += result.bytes - to_payload;
    Consume();
    if (result.bytes < payload_left + space) return moved;  // no more is there
  }
  return moved;
}

void IncomingChannel::Consume() {
  std::size_t taken = 0;
  while (fault_->ok()) {
    const std::uint8_t* const next = read_ahead_.get() + taken;
    const std::size_t there = read_ahead_size_ - taken;
    if (in_payload_) {
      const std::size_t bytes = std::min(there, payload_bytes_ - payload_read_);
      CopyBytes(next, bytes, payload_ + payload_read_);
      payload_read_ += bytes;
      taken += bytes;
      if (payload_read_ < payload_bytes_) break;
      EndPayload();
    } else {
      if (there < kMessageHeaderSize) break;
      const absl::StatusOr<MessageHeader> header =
          DecodeMessageHeader(absl::MakeConstSpan(next, kMessageHeaderSize));
      taken += kMessageHeaderSize;
      if (header.ok()) {
        BeginMessage(*header);
      } else {
        RaiseCorrupt(header.status().message());
      }
    }
  }
  read_ahead_size_ -= taken;
  std::memmove(read_ahead_.get(), read_ahead_.get() + taken, read_ahead_size_);
}

void IncomingChannel::BeginMessage(const MessageHeader& header) {
  if (!CheckNumbers(header)) return;
  switch (header.kind) {
    case MessageKind::kEager:
      BeginEager(header);
      break;
    case MessageKind::kAnnounce:
      TakeAnnouncement(header);
      break;
    case MessageKind::kRendezvous:
      BeginRendezvous(header);
      break;
    default:
      RaiseCorrupt(absl::StrCat("kind ", static_cast<int>(header.kind),
                                " of message does not go from a sender to its "
                                "receiver"));
  }
}

bool IncomingChannel::CheckNumbers(const MessageHeader& header) {
  const std::size_t payload_bytes =
      header.kind == MessageKind::kAnnounce ? 0 : MessageBytes(header);
  if (header.sender != peer_ || header.signature.kind != CallKind::kSend ||
      header.payload_bytes != payload_bytes) {
    RaiseCorrupt(absl::StrCat("a message says that it comes from rank ",
                              header.sender, ", is ",
                              SenderCall(header).ToString(), " and has ",
                              header.payload_bytes, " bytes of payload"));
    return false;
  }
  if (header.kind != MessageKind::kRendezvous &&
      header.sequence != ++last_sequence_) {
    RaiseCorrupt(absl::StrCat("message #", header.sequence, " came where #",
                              last_sequence_, " was due"));
    return false;
  }
  return true;
}

void IncomingChannel::BeginEager(const MessageHeader& header) {
  const std::size_t cost = kMessageHeaderSize + header.payload_bytes;
  if (header.payload_bytes > options_.eager_bytes || cost > available_) {
    RaiseCorrupt(absl::StrCat(
        "it sent ", header.payload_bytes,
        " bytes that were not asked for, where ", available_,
        " bytes of credit are left and ", options_.eager_bytes,
        " may go at once; the ranks must run the same version of the program"));
    return;
  }
  in_payload_ = true;
  payload_is_eager_ = true;
  payload_bytes_ = header.payload_bytes;
  payload_read_ = 0;
  PointToPointOperation* const receive = TakeStarted(header.tag);
  if (receive == nullptr) {
    // Not zeroed: what is handed out was received.
    unexpected_.push_back({header, std::unique_ptr<std::uint8_t[]>(
                                       new std::uint8_t[payload_bytes_])});
    payload_ = unexpected_.back().payload.get();
    available_ -= cost;
  } else if (CheckMatch(*receive, header)) {
    payload_ = Memory(*receive);
    receiving_ = receive;
    available_ -= cost;
    unpaid_ = cost;
  }
}

void IncomingChannel::TakeAnnouncement(const MessageHeader& header) {
  PointToPointOperation* const receive = TakeStarted(header.tag);
  if (receive == nullptr) {
    if (unexpected_announcements_ >= options_.announced_messages) {
      RaiseCorrupt(absl::StrCat("it announced more than ",
                                options_.announced_messages, " messages"));
      return;
    }
    ++unexpected_announcements_;
    unexpected_.push_back({header, nullptr, true});
  } else if (CheckMatch(*receive, header)) {
    AskFor(receive, header.sequence);
  }
}

void IncomingChannel::BeginRendezvous(const MessageHeader& header) {
  PointToPointOperation* const receive =
      ready_.Take([&](const PointToPointOperation& asked) {
        return asked.sequence == header.sequence;
      });
  if (receive == nullptr || receive->bytes != header.payload_bytes) {
    RaiseCorrupt(absl::StrCat(
        "the ", header.payload_bytes, " bytes of message #", header.sequence,
        " came, which was not asked for or announced with another length"));
    return;
  }
  in_payload_ = true;
  payload_is_eager_ = false;
  payload_ = Memory(*receive);
  payload_bytes_ = header.payload_bytes;
  payload_read_ = 0;
  receiving_ = receive;
}

void IncomingChannel::EndPayload() {
  if (receiving_ == nullptr) {
    unexpected_.back().complete = true;
  } else {
    receiving_->state = State::kDone;
    if (payload_is_eager_) Owe(payload_bytes_);
    unpaid_ = 0;
    receiving_ = nullptr;
  }
  in_payload_ = false;
  payload_ = nullptr;
  payload_bytes_ = 0;
  payload_read_ = 0;
}

void IncomingChannel::EndReading() {
  read_ended_ = true;
  for (const PointToPointOperation* receive :
       std::initializer_list<const PointToPointOperation*>{
           receiving_, ready_.front(), announced_.front(), started_.front()}) {
    if (receive != nullptr) RaiseLost(*receive);
  }
}

// What goes back -------------------------------------------------------------

bool IncomingChannel::WantsWrite() const {
  if (link_ == nullptr || write_ended_) return false;
  return control_size_ > 0 || !announced_.empty() ||
         owed_ >= options_.credit_bytes / 4;
}

void IncomingChannel::FillControl() {
  const auto append = [this](const MessageHeader& header) {
    EncodeMessageHeader(header, absl::MakeSpan(control_.data() + control_size_,
                                               kMessageHeaderSize));
    control_size_ += kMessageHeaderSize;
  };
  MessageHeader header;
  header.sender = rank_;
  header.signature.kind = CallKind::kRecv;
  if (owed_ >= options_.credit_bytes / 4) {
    header.kind = MessageKind::kCredit;
    header.offset = owed_;
    append(header);
    available_ += std::exchange(owed_, 0);
    header.offset = 0;
  }
  header.kind = MessageKind::kReady;
  while (!announced_.empty() && control_size_ < control_.size()) {
    PointToPointOperation* const receive = announced_.PopFront();
    header.signature = receive->call.signature;
    header.sequence = receive->sequence;
    header.tag = receive->call.tag;
    append(header);
    receive->state = State::kReady;
    ready_.PushBack(receive);
    control_request_ = receive;
  }
}

bool IncomingChannel::Write() {
  bool moved = false;
  while (fault_->ok() && WantsWrite()) {
    if (control_size_ == 0) FillControl();
    const iovec piece = {control_.data() + control_written_,
                         control_size_ - control_written_};
    const LinkResult result = link_->TryWrite(absl::MakeConstSpan(&piece, 1));
    if (result.state == LinkState::kEnded) {
      // Credit is of no use to a sender that sends no more; an announced
      // message will not come unasked.
      write_ended_ = true;
      if (control_request_ != nullptr) RaiseLost(*control_request_);
      return moved;
    }
    if (result.state == LinkState::kWouldBlock) return moved;
    if (result.bytes > 0) moved = true;
    control_written_ += result.bytes;
    if (control_written_ < control_size_) return moved;
    control_size_ = 0;
    control_written_ = 0;
    control_request_ = nullptr;
  }
  return moved;
}

// ----------------------------------------------------------------------------

void IncomingChannel::RaiseLost(const PointToPointOperation& receive) {
  const std::string reason = link_->end_reason();
  fault_->Raise(
      EngineFault::Kind::kPeerLost, peer_,
      absl::UnavailableError(absl::StrCat(
          "rank ", rank_, " lost its connection from rank ", peer_, " in ",
          receive.call.ToString(), reason.empty() ? "" : ": ", reason)));
}

void IncomingChannel::RaiseCorrupt(absl::string_view why) {
  fault_->Raise(EngineFault::Kind::kCorrupt, peer_,
                absl::DataLossError(absl::StrCat(
                    "rank ", rank_, " got a wrong message from rank ", peer_,
                    ": ", why)));
}

void IncomingChannel::AppendState(std::string* state) const {
  const auto append = [state](const char* name, const PointToPointList& list) {
    absl::StrAppend(state, name);
    for (auto* at = list.front(); at != nullptr; at = at->next) {
      absl::StrAppend(state, at->call.tag, "#", at->sequence, "i", at->id, ",");
    }
  };
  append(" s", started_);
  append(" a", announced_);
  append(" r", ready_);
  absl::StrAppend(state, " v", available_, " o", owed_, " u");
  for (const Unexpected& message : unexpected_) {
    absl::StrAppend(state, message.header.sequence,
                    message.complete ? "," : "..,");
  }
  if (in_payload_) {
    absl::StrAppend(state, " p", payload_read_, "/", payload_bytes_, "i",
                    receiving_ == nullptr ? 0 : receiving_->id);
  }
  absl::StrAppend(state, read_ended_ ? " e" : "", write_ended_ ? " E" : "",
                  " n", last_sequence_, " c", control_written_, "/");
  state->append(reinterpret_cast<const char*>(control_.data()), control_size_);
  state->append(" h");
  state->append(reinterpret_cast<const char*>(read_ahead_.get()),
                read_ahead_size_);
}

}  // namespace shoal::internal
