// SPDX-License-Identifier: Apache-2.0
//
// How protobuf messages are told apart on a control connection: 12 bytes before
// each, little-endian.
//
//   0  4  "SHOL"
//   4  2  version of the protocol, 1
//   6  2  0
//   8  4  length of the payload
//
// A reader never takes a byte from a socket that belongs to what follows the
// frame, so that a connection can be handed on between two frames; and it
// allocates nothing before a whole header has been found good.
//
// Threads: one at a time.

#ifndef SHOAL_COMM_FRAME_H_
#define SHOAL_COMM_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderSize = 12;

// For connections of which nothing is known yet.
inline constexpr std::size_t kMaxStrangerPayload = 64 * 1024;
// A rank sends its first message together with its connection; only a machine
// in distress takes this long.
inline constexpr absl::Duration kHelloTimeout = absl::Seconds(5);
inline constexpr std::size_t kMaxSilentConnections = 256;
// From rank 0 to a rank that trusts it: a table of many peers.
inline constexpr std::size_t kMaxTrustedPayload = 16 * 1024 * 1024;

// Header and payload.
std::string EncodeFrame(absl::string_view payload);

class FrameReader {
 public:
  explicit FrameReader(std::size_t max_payload) : max_payload_(max_payload) {}

  // Where the next bytes go; exactly as many as are missing, never none.
  absl::Span<char> Wanted();

  // The first `bytes` bytes of what `Wanted` returned are there. True when the
  // frame is complete. `FAILED_PRECONDITION` for another version of
  // the protocol, `DATA_LOSS` for what is none; the messages begin with "it",
  // the sender. The reader is of no use after that.
  absl::StatusOr<bool> Filled(std::size_t bytes);

  // After `Filled` has returned true. The next frame begins.
  std::string TakePayload();

  // Whether a frame has begun and is not complete.
  bool in_frame() const { return header_bytes_ > 0; }

 private:
  const std::size_t max_payload_;
  char header_[kFrameHeaderSize] = {};
  std::size_t header_bytes_ = 0;
  std::string payload_;
  std::size_t payload_bytes_ = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FRAME_H_
