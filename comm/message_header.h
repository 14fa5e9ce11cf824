// SPDX-License-Identifier: Apache-2.0
//
// The 64 bytes before every message on a data link. docs/wire.md has the table.
//
// A header carries the sender's call itself and not a hash of it, so that ranks
// which disagree can be told what each side called.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_MESSAGE_HEADER_H_
#define SHOAL_COMM_MESSAGE_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/comm/call.h"

namespace shoal::internal {

inline constexpr std::size_t kMessageHeaderSize = 64;

// The numeric values are part of the wire format.
enum class MessageKind : std::uint8_t {
  kCollective = 1,  // one send step of a schedule; payload follows
  kEager = 2,       // a small Send; payload follows
  kAnnounce = 3,    // a large Send waits for its receive
  kReady = 4,       // receiver to sender: the announced one may come
  kRendezvous = 5,  // the announced message; payload follows
  kCredit = 6,      // receiver to sender: so many eager bytes were taken
};

struct MessageHeader {
  MessageKind kind = MessageKind::kCollective;
  CallSignature signature;
  // Of collectives: counted by communicator from 1. Of point to point: counted
  // by sender, receiver and direction from 1.
  std::uint64_t sequence = 0;
  // Collectives: which message of the operation this is on its link, from 0.
  // kCredit: the bytes returned.
  std::uint64_t offset = 0;
  std::uint64_t payload_bytes = 0;
  std::int32_t sender = 0;
  std::int32_t tag = 0;
};

// `bytes` has kMessageHeaderSize bytes; all are written.
void EncodeMessageHeader(const MessageHeader& header,
                         absl::Span<std::uint8_t> bytes);

// `bytes` has kMessageHeaderSize bytes. `DATA_LOSS` when the magic number or
// the version is another, an enumerator is out of range, reserved bytes are not
// zero, or a count or length is negative or too large to be true.
absl::StatusOr<MessageHeader> DecodeMessageHeader(
    absl::Span<const std::uint8_t> bytes);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_MESSAGE_HEADER_H_
