// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/message_receiver.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/encoding.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/operation.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

EngineFault Corrupt(int peer, const std::string& text) {
  return {EngineFault::Kind::kCorrupt, peer, absl::DataLossError(text)};
}

EngineFault Mismatch(int peer, const std::string& text) {
  return {EngineFault::Kind::kMismatch, peer,
          absl::FailedPreconditionError(absl::StrCat(
              text, "; all ranks must make the same calls in the same order"))};
}

std::string CallText(const MessageHeader& header) {
  return absl::StrCat(header.signature.ToString(), " #", header.sequence);
}

// What a peer's header says that cannot come from any call of a sound peer.
EngineFault CheckOrigin(const MessageHeader& header, int peer, int rank) {
  if (header.kind != MessageKind::kCollective) {
    return Corrupt(
        peer, absl::StrCat("rank ", peer, " sent rank ", rank,
                           " a message of kind ", static_cast<int>(header.kind),
                           " on a link for collectives"));
  }
  if (header.sender != peer) {
    return Corrupt(peer, absl::StrCat("rank ", header.sender,
                                      " is named as the sender of a message "
                                      "that came to rank ",
                                      rank, " from rank ", peer));
  }
  return {};
}

// Why a peer's message is not the one that the step is to receive.
EngineFault Compare(const MessageHeader& header, const Operation& operation,
                    const QueuedStep& queued, int peer, int rank) {
  if (header.sequence != operation.id() ||
      header.signature != operation.schedule().signature) {
    return Mismatch(peer, absl::StrCat("rank ", peer, " called ",
                                       CallText(header), " where rank ", rank,
                                       " called ", operation.ToString()));
  }
  const std::size_t expected = operation.payload_bytes(queued.step);
  if (header.signature.kind == CallKind::kAllToAllV &&
      header.payload_bytes != expected) {
    return Mismatch(
        peer,
        absl::StrCat("rank ", peer, " called ", CallText(header),
                     " and sends rank ", rank, " ",
                     header.payload_bytes / operation.element_size(),
                     " elements where rank ", rank, " called ",
                     operation.ToString(), " and receives ",
                     expected / operation.element_size(), " from rank ", peer));
  }
  if (header.offset != queued.ordinal || header.payload_bytes != expected) {
    return Corrupt(
        peer,
        absl::StrCat(
            "rank ", peer, " sent rank ", rank, " message ", header.offset,
            " of ", header.payload_bytes, " bytes in ", CallText(header),
            " where message ", queued.ordinal, " of ", expected,
            " bytes has its turn; do all ranks run the same program?"));
  }
  return {};
}

// Whether a step's payload passes through the staging buffer.
bool IsStaged(const Operation& operation, int step) {
  return operation.step(step).kind == StepKind::kReceiveReduce ||
         !operation.encoding().IsAsTheyAre();
}

}  // namespace

std::size_t MessageReceiver::RoomBytes(const OperationTable& operations) const {
  const QueuedStep& queued = queue_.front();
  const Operation& operation = operations.at(queued.slot);
  const std::size_t total = operation.payload_bytes(queued.step);
  if (IsStaged(operation, queued.step)) {
    const std::size_t unit = operation.encoding().unit_bytes();
    const std::size_t slice =
        std::max(slice_bytes_ - slice_bytes_ % unit, unit);
    return std::min(total - payload_read_, slice - staged_end_);
  }
  const std::int64_t allowed = operation.Allowed(queued.step);
  if (allowed <= 0) return 0;
  return static_cast<std::size_t>(allowed) * operation.element_size() -
         payload_read_;
}

struct iovec MessageReceiver::Room(OperationTable* operations,
                                   std::size_t limit) {
  const std::size_t bytes = std::min(RoomBytes(*operations), limit);
  const QueuedStep& queued = queue_.front();
  Operation& operation = operations->at(queued.slot);
  if (!IsStaged(operation, queued.step)) {
    return {operation.Target(queued.step) + payload_read_, bytes};
  }
  // Room is bounded by the slice, so that this comes to rest.
  if (staging_.size() < staged_end_ + bytes) {
    staging_.resize(staged_end_ + bytes);
  }
  return {staging_.data() + staged_end_, bytes};
}

bool MessageReceiver::Wants(const OperationTable& operations) const {
  if (queue_.empty()) return false;
  return header_read_ < kMessageHeaderSize || RoomBytes(operations) > 0;
}

bool MessageReceiver::Read(Link* link, std::size_t limit,
                           OperationTable* operations, EngineFault* fault) {
  if (queue_.empty()) return false;
  const bool processed = Process(operations, fault);
  if (fault->kind != EngineFault::Kind::kNone) return true;
  if (queue_.empty()) return processed;

  struct iovec pieces[2];
  std::size_t used = 0;
  const std::size_t header_left = kMessageHeaderSize - header_read_;
  if (header_left > 0) {
    pieces[used++] = {header_.data() + header_read_, header_left};
  }
  const struct iovec room = Room(operations, limit);
  if (room.iov_len > 0) pieces[used++] = room;
  if (used == 0) return processed;

  const LinkResult result =
      link->TryRead(absl::Span<const struct iovec>(pieces, used));
  if (result.state == LinkState::kEnded) {
    *fault =
        PeerLost(rank_, peer_, operations->at(queue_.front().slot).ToString(),
                 link->end_reason());
    return true;
  }
  if (result.bytes == 0) return processed;
  const std::size_t of_header = std::min(result.bytes, header_left);
  const std::size_t of_payload = result.bytes - of_header;
  header_read_ += of_header;
  payload_read_ += of_payload;
  const QueuedStep& queued = queue_.front();
  Operation& operation = operations->at(queued.slot);
  if (IsStaged(operation, queued.step)) staged_end_ += of_payload;
  Process(operations, fault);
  return true;
}

bool MessageReceiver::Process(OperationTable* operations, EngineFault* fault) {
  if (queue_.empty() || header_read_ < kMessageHeaderSize) return false;
  if (!header_checked_ && !CheckHeader(*operations, fault)) return true;
  const QueuedStep& queued = queue_.front();
  Operation& operation = operations->at(queued.slot);
  bool moved = false;
  if (IsStaged(operation, queued.step)) {
    moved = ProcessStaged(operations);
  } else {
    operation.SetProcessed(queued.step,
                           payload_read_ / operation.element_size());
  }
  if (operation.processed(queued.step) !=
          operation.step(queued.step).target.count ||
      operation.Allowed(queued.step) < 0) {
    return moved;
  }
  CompleteMessage(operations);
  return true;
}

bool MessageReceiver::ProcessStaged(OperationTable* operations) {
  const QueuedStep& queued = queue_.front();
  Operation& operation = operations->at(queued.slot);
  const Encoding& encoding = operation.encoding();
  // Whole units only; the last one of a message may have fewer elements.
  const std::int64_t staged =
      static_cast<std::int64_t>((staged_end_ - staged_begin_) /
                                encoding.unit_bytes()) *
      encoding.unit_elements();
  const std::int64_t count =
      std::min(staged, operation.Allowed(queued.step) -
                           operation.processed(queued.step));
  if (count <= 0) return false;
  const char* const received = staging_.data() + staged_begin_;
  if (operation.step(queued.step).kind == StepKind::kReceiveReduce) {
    operation.Reduce(queued.step, received, count);
  } else {
    operation.Decode(queued.step, received, count);
  }
  staged_begin_ += encoding.Bytes(count);
  // A piece of a unit moves to the front, so that there is room for the rest of
  // it. Whole units stay: dependencies hold them back, and there is no hurry to
  // read more.
  const std::size_t left = staged_end_ - staged_begin_;
  if (left < encoding.unit_bytes()) {
    std::memmove(staging_.data(), staging_.data() + staged_begin_, left);
    staged_begin_ = 0;
    staged_end_ = left;
  }
  return true;
}

void MessageReceiver::CompleteMessage(OperationTable* operations) {
  const QueuedStep queued = queue_.front();
  queue_.PopFront();
  header_read_ = 0;
  header_checked_ = false;
  payload_read_ = 0;
  operations->CompleteStep(queued.slot, queued.step);
}

bool MessageReceiver::CheckHeader(const OperationTable& operations,
                                  EngineFault* fault) {
  const QueuedStep& queued = queue_.front();
  const Operation& operation = operations.at(queued.slot);
  // There is exactly one header that fits.
  std::array<std::uint8_t, kMessageHeaderSize> expected;
  EncodeMessageHeader(HeaderOf(operation, queued, peer_),
                      absl::MakeSpan(expected));
  header_checked_ = header_ == expected;
  if (header_checked_) return true;

  const absl::StatusOr<MessageHeader> header = DecodeMessageHeader(header_);
  if (!header.ok()) {
    *fault = Corrupt(peer_, absl::StrCat("from rank ", peer_, ": ",
                                         header.status().message()));
    return false;
  }
  *fault = CheckOrigin(*header, peer_, rank_);
  if (fault->kind == EngineFault::Kind::kNone) {
    *fault = Compare(*header, operation, queued, peer_, rank_);
  }
  return false;
}

bool MessageReceiver::ReadHeaderAhead(Link* link,
                                      const OperationTable& operations,
                                      const Operation& sending,
                                      EngineFault* fault) {
  bool moved = false;
  if (WantsHeaderAhead()) {
    const struct iovec piece = {header_.data() + header_read_,
                                kMessageHeaderSize - header_read_};
    const LinkResult result =
        link->TryRead(absl::Span<const struct iovec>(&piece, 1));
    if (result.state == LinkState::kEnded) {
      *fault = PeerLost(rank_, peer_, sending.ToString(), link->end_reason());
      return true;
    }
    header_read_ += result.bytes;
    moved = result.bytes > 0;
  }
  if (header_read_ < kMessageHeaderSize) return moved;
  const absl::StatusOr<MessageHeader> header = DecodeMessageHeader(header_);
  if (!header.ok()) {
    *fault = Corrupt(peer_, absl::StrCat("from rank ", peer_, ": ",
                                         header.status().message()));
    return true;
  }
  *fault = CheckOrigin(*header, peer_, rank_);
  if (fault->kind != EngineFault::Kind::kNone) return true;
  // All receives of the operations started so far are behind us.
  if (header->sequence > operations.last_started()) return moved;
  *fault =
      Mismatch(peer_, absl::StrCat("rank ", peer_, " called ",
                                   CallText(*header), " and sends to rank ",
                                   rank_, ", which expects nothing from it in ",
                                   sending.ToString()));
  return true;
}

void MessageReceiver::AppendState(std::string* state) const {
  absl::StrAppend(state, "r", queue_.size(), ",", header_read_, ",",
                  header_checked_, ",", payload_read_, ",");
  state->append(reinterpret_cast<const char*>(header_.data()), header_read_);
  state->append(staging_.data() + staged_begin_, staged_end_ - staged_begin_);
  absl::StrAppend(state, ";");
}

}  // namespace shoal::internal
