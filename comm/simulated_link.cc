// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/simulated_link.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"

namespace shoal::internal {
namespace {

// Calls `move(bytes, size)` for runs of bytes of the gather or scatter list, up
// to what the frame and the permit allow and `available` holds, and lets them
// pass. Returns how many moved.
template <typename Move>
std::size_t Pump(absl::Span<const struct iovec> pieces, std::size_t available,
                 MessageFrame* frame, Permit* permit, Move move) {
  std::size_t moved = 0;
  for (const struct iovec& piece : pieces) {
    char* at = static_cast<char*>(piece.iov_base);
    std::size_t left = piece.iov_len;
    while (left > 0) {
      const std::size_t size =
          std::min({left, permit->bytes, available, frame->BytesToBoundary()});
      if (size == 0) return moved;
      move(at, size);
      permit->bytes -= size;
      available -= size;
      moved += size;
      at += size;
      left -= size;
      if (frame->Pass(at - size, size) && permit->within_message) {
        permit->bytes = 0;
      }
    }
  }
  return moved;
}

}  // namespace

std::size_t MessageFrame::BytesToBoundary() const {
  return (offset_ < kMessageHeaderSize ? kMessageHeaderSize : size_) - offset_;
}

bool MessageFrame::Pass(const char* bytes, std::size_t size) {
  if (offset_ < kMessageHeaderSize) header_.append(bytes, size);
  offset_ += size;
  if (offset_ == kMessageHeaderSize) {
    const absl::StatusOr<MessageHeader> header =
        DecodeMessageHeader(absl::MakeConstSpan(
            reinterpret_cast<const std::uint8_t*>(header_.data()),
            header_.size()));
    size_ = kMessageHeaderSize + (header.ok() ? header->payload_bytes : 0);
  }
  if (offset_ < kMessageHeaderSize || offset_ < size_) return false;
  *this = MessageFrame();
  return true;
}

void SimulatedPipe::AppendState(std::string* state) const {
  absl::StrAppend(state, "p", in_flight.size(), ",", finished, broken,
                  write_frame.offset(), ",", read_frame.offset(), ":",
                  in_flight);
}

LinkResult SimulatedLink::TryWrite(absl::Span<const struct iovec> pieces) {
  SimulatedPipe& pipe = (*pipes_)[outgoing_];
  if (pipe.broken || pipe.finished) {
    return {pipe.may_write.end ? LinkState::kEnded : LinkState::kWouldBlock, 0};
  }
  const std::size_t moved =
      Pump(pieces, pipe.room(), &pipe.write_frame, &pipe.may_write,
           [&](const char* from, std::size_t size) {
             pipe.in_flight.append(from, size);
           });
  return {moved > 0 ? LinkState::kOk : LinkState::kWouldBlock, moved};
}

LinkResult SimulatedLink::TryRead(absl::Span<const struct iovec> pieces) {
  SimulatedPipe& pipe = (*pipes_)[incoming_];
  std::size_t from = 0;
  const std::size_t moved =
      Pump(pieces, pipe.in_flight.size(), &pipe.read_frame, &pipe.may_read,
           [&](char* to, std::size_t size) {
             std::memcpy(to, pipe.in_flight.data() + from, size);
             from += size;
           });
  pipe.in_flight.erase(0, moved);
  if (moved > 0) return {LinkState::kOk, moved};
  const bool ended = pipe.finished && pipe.in_flight.empty();
  return {
      ended && pipe.may_read.end ? LinkState::kEnded : LinkState::kWouldBlock,
      0};
}

}  // namespace shoal::internal
