// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/outgoing_channel.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point_operation.h"
#include "shoal/comm/point_to_point_options.h"

namespace shoal::internal {

using State = PointToPointOperation::State;

OutgoingChannel::OutgoingChannel(int rank, int peer,
                                 const PointToPointOptions& options,
                                 EngineFault* fault)
    : rank_(rank),
      peer_(peer),
      options_(options),
      fault_(fault),
      credit_(options.credit_bytes) {}

void OutgoingChannel::Start(PointToPointOperation* send) {
  send->sequence = ++last_sequence_;
  started_.PushBack(send);
}

bool OutgoingChannel::HasSomethingToWrite() const {
  if (writing_ != nullptr || !ready_.empty()) return true;
  if (started_.empty()) return false;
  // Full of announcements: those that come after have to wait, lest they
  // overtake one of their own tag.
  return announced_.size() < options_.announced_messages;
}

bool OutgoingChannel::BeginMessage() {
  if (!HasSomethingToWrite()) return false;
  if (!started_.empty() && announced_.size() < options_.announced_messages) {
    writing_ = started_.PopFront();
    const std::size_t cost = kMessageHeaderSize + writing_->bytes;
    const bool eager =
        writing_->bytes <= options_.eager_bytes && cost <= credit_;
    if (eager) credit_ -= cost;
    writing_kind_ = eager ? MessageKind::kEager : MessageKind::kAnnounce;
  } else {
    writing_ = ready_.PopFront();
    writing_kind_ = MessageKind::kRendezvous;
  }
  writing_payload_ =
      writing_kind_ == MessageKind::kAnnounce ? 0 : writing_->bytes;
  written_ = 0;
  MessageHeader header;
  header.kind = writing_kind_;
  header.signature = writing_->call.signature;
  header.sequence = writing_->sequence;
  header.payload_bytes = writing_payload_;
  header.sender = rank_;
  header.tag = writing_->call.tag;
  EncodeMessageHeader(header, absl::MakeSpan(header_));
  return true;
}

void OutgoingChannel::EndMessage() {
  PointToPointOperation* const send = std::exchange(writing_, nullptr);
  if (writing_kind_ == MessageKind::kAnnounce) {
    send->state = State::kAnnounced;
    announced_.PushBack(send);
    if (read_ended_) RaiseLost(*send);
  } else {
    send->state = State::kDone;
  }
}

bool OutgoingChannel::Write() {
  bool moved = false;
  while (fault_->ok() && (writing_ != nullptr || BeginMessage())) {
    const std::size_t header_left =
        kMessageHeaderSize - std::min(written_, kMessageHeaderSize);
    const std::size_t payload_at =
        written_ - std::min(written_, kMessageHeaderSize);
    // writev(2) does not write through iov_base.
    char* const payload =
        static_cast<char*>(const_cast<void*>(writing_->call.input));
    const iovec pieces[] = {
        {header_.data() + (kMessageHeaderSize - header_left), header_left},
        {payload_at < writing_payload_ ? payload + payload_at : nullptr,
         writing_payload_ - payload_at}};
    const LinkResult result = link_->TryWrite(pieces);
    if (result.state == LinkState::kEnded) {
      RaiseLost(*writing_);
      return moved;
    }
    if (result.state == LinkState::kWouldBlock) return moved;
    if (result.bytes > 0) moved = true;
    written_ += result.bytes;
    if (written_ < kMessageHeaderSize + writing_payload_) return moved;
    EndMessage();
  }
  return moved;
}

bool OutgoingChannel::Read() {
  bool moved = false;
  while (fault_->ok() && !read_ended_) {
    const std::size_t space = kReadAhead - read_ahead_size_;
    const iovec piece = {read_ahead_.data() + read_ahead_size_, space};
    const LinkResult result = link_->TryRead(absl::MakeConstSpan(&piece, 1));
    if (result.state == LinkState::kEnded) {
      read_ended_ = true;
      if (!announced_.empty()) RaiseLost(*announced_.front());
      return moved;
    }
    if (result.state == LinkState::kWouldBlock) return moved;
    if (result.bytes > 0) moved = true;
    read_ahead_size_ += result.bytes;
    std::size_t taken = 0;
    while (fault_->ok() && read_ahead_size_ - taken >= kMessageHeaderSize) {
      const absl::StatusOr<MessageHeader> header = DecodeMessageHeader(
          absl::MakeConstSpan(read_ahead_.data() + taken, kMessageHeaderSize));
      taken += kMessageHeaderSize;
      if (header.ok()) {
        TakeHeader(*header);
      } else {
        RaiseCorrupt(header.status());
      }
    }
    read_ahead_size_ -= taken;
    std::memmove(read_ahead_.data(), read_ahead_.data() + taken,
                 read_ahead_size_);
    if (result.bytes < space) return moved;  // nothing more is there
  }
  return moved;
}

void OutgoingChannel::TakeHeader(const MessageHeader& header) {
  if (header.sender != peer_ || header.payload_bytes != 0) {
    RaiseCorrupt(absl::DataLossError(
        absl::StrCat("it says that it comes from rank ", header.sender,
                     " and has ", header.payload_bytes, " bytes of payload")));
  } else if (header.kind == MessageKind::kReady) {
    TakeRequest(header);
  } else if (header.kind == MessageKind::kCredit) {
    if (header.offset > options_.credit_bytes - credit_) {
      RaiseCorrupt(absl::DataLossError(absl::StrCat(
          "it returns ", header.offset, " bytes of credit where only ",
          options_.credit_bytes - credit_, " are out")));
    } else {
      credit_ += header.offset;
    }
  } else {
    RaiseCorrupt(absl::DataLossError(
        absl::StrCat("kind ", static_cast<int>(header.kind),
                     " of message does not go from a receiver to its sender")));
  }
}

void OutgoingChannel::TakeRequest(const MessageHeader& header) {
  PointToPointOperation* const send =
      announced_.Take([&](const PointToPointOperation& announced) {
        return announced.sequence == header.sequence;
      });
  if (send == nullptr) {
    RaiseCorrupt(absl::DataLossError(
        absl::StrCat("it asks for message #", header.sequence,
                     ", which was not announced or was asked for before")));
    return;
  }
  send->state = State::kReady;
  ready_.PushBack(send);
}

void OutgoingChannel::RaiseLost(const PointToPointOperation& send) {
  const std::string reason = link_->end_reason();
  fault_->Raise(EngineFault::Kind::kPeerLost, peer_,
                absl::UnavailableError(absl::StrCat(
                    "rank ", rank_, " lost its connection to rank ", peer_,
                    " in ", send.call.ToString(), " #", send.sequence,
                    reason.empty() ? "" : ": ", reason)));
}

void OutgoingChannel::RaiseCorrupt(const absl::Status& status) {
  fault_->Raise(EngineFault::Kind::kCorrupt, peer_,
                absl::DataLossError(absl::StrCat(
                    "rank ", rank_, " got a wrong answer from rank ", peer_,
                    " on the connection on which it sends to it: ",
                    absl::string_view(status.message()))));
}

void OutgoingChannel::AppendState(std::string* state) const {
  const auto append = [state](const char* name, const PointToPointList& list) {
    absl::StrAppend(state, name);
    for (auto* at = list.front(); at != nullptr; at = at->next) {
      absl::StrAppend(state, at->sequence, ",");
    }
  };
  append(" s", started_);
  append(" a", announced_);
  append(" r", ready_);
  absl::StrAppend(state, " c", credit_);
  if (writing_ != nullptr) {
    absl::StrAppend(state, " w", static_cast<int>(writing_kind_), ":",
                    writing_->sequence, "@", written_);
  }
  absl::StrAppend(state, read_ended_ ? " e" : "", " h");
  state->append(reinterpret_cast<const char*>(read_ahead_.data()),
                read_ahead_size_);
}

}  // namespace shoal::internal
