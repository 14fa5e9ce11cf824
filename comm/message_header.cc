// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/message_header.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal::internal {
namespace {

// The table of docs/wire.md. Integers are little-endian.
constexpr std::size_t kMagicAt = 0;          // 4 bytes
constexpr std::size_t kVersionAt = 4;        // 1
constexpr std::size_t kMessageKindAt = 5;    // 1
constexpr std::size_t kCallKindAt = 6;       // 1
constexpr std::size_t kDTypeAt = 7;          // 1
constexpr std::size_t kReduceOpAt = 8;       // 1
constexpr std::size_t kAlgorithmAt = 9;      // 1
constexpr std::size_t kWireFormatAt = 10;    // 1
constexpr std::size_t kReserved1At = 11;     // 1, zero
constexpr std::size_t kRootAt = 12;          // 4, signed
constexpr std::size_t kCountAt = 16;         // 8, signed
constexpr std::size_t kSequenceAt = 24;      // 8
constexpr std::size_t kOffsetAt = 32;        // 8
constexpr std::size_t kPayloadBytesAt = 40;  // 8
constexpr std::size_t kSenderAt = 48;        // 4, signed
constexpr std::size_t kTagAt = 52;           // 4, signed
constexpr std::size_t kPartsDigestAt = 56;   // 8

constexpr std::uint32_t kMagic = 0x4C414853;  // "SHAL" in memory order
constexpr std::uint8_t kVersion = 1;

// More than this is no length or count of anything: 4 EiB.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;

// Byte by byte, so that it holds on any machine; compilers make one store (or
// load) of it.
template <typename T>
void Store(T value, std::uint8_t* at) {
  auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    at[i] = static_cast<std::uint8_t>(bits >> (8 * i));
  }
}

template <typename T>
T Load(const std::uint8_t* at) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bits |= std::uint64_t{at[i]} << (8 * i);
  }
  return static_cast<T>(bits);
}

bool IsValidMessageKind(MessageKind kind) {
  switch (kind) {
    case MessageKind::kCollective:
    case MessageKind::kEager:
    case MessageKind::kAnnounce:
    case MessageKind::kReady:
    case MessageKind::kRendezvous:
    case MessageKind::kCredit:
      return true;
  }
  return false;
}

// Formatted only on the way to an error.
template <typename T>
absl::Status Corrupt(absl::string_view field, T value) {
  return absl::DataLossError(absl::StrCat(
      "a message header is damaged, or not from a Shoal of this version: ",
      field, " is ", value));
}

absl::Status CheckEnumerators(const MessageHeader& header) {
  const CallSignature& s = header.signature;
  if (!IsValidMessageKind(header.kind)) {
    return Corrupt("message kind", static_cast<int>(header.kind));
  }
  if (!IsValidCallKind(s.kind)) {
    return Corrupt("call kind", static_cast<int>(s.kind));
  }
  if (!IsValidDType(s.dtype)) {
    return Corrupt("element type", static_cast<int>(s.dtype));
  }
  if (!IsValidReduceOp(s.op)) {
    return Corrupt("reduction", static_cast<int>(s.op));
  }
  if (!IsValidAlgorithm(s.algorithm)) {
    return Corrupt("algorithm", static_cast<int>(s.algorithm));
  }
  if (!IsValidWireFormat(s.wire)) {
    return Corrupt("wire format", static_cast<int>(s.wire));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const MessageHeader& header) {
  const CallSignature& s = header.signature;
  if (s.count < 0 ||
      static_cast<std::uint64_t>(s.count) > kMaxBytes / DTypeSize(s.dtype)) {
    return Corrupt("count", s.count);
  }
  if (s.root < 0) return Corrupt("root", s.root);
  if (s.parts_digest != 0 && s.kind != CallKind::kAllReduce &&
      s.kind != CallKind::kAllGatherV) {
    return Corrupt("digest of parts", absl::Hex(s.parts_digest));
  }
  if (header.offset > kMaxBytes) return Corrupt("offset", header.offset);
  if (header.payload_bytes > kMaxBytes) {
    return Corrupt("payload length", header.payload_bytes);
  }
  if (header.sender < 0) return Corrupt("sender", header.sender);
  if (header.tag < 0) return Corrupt("tag", header.tag);
  return absl::OkStatus();
}

}  // namespace

void EncodeMessageHeader(const MessageHeader& header,
                         absl::Span<std::uint8_t> bytes) {
  std::uint8_t* const to = bytes.data();
  const CallSignature& s = header.signature;
  Store(kMagic, to + kMagicAt);
  Store(kVersion, to + kVersionAt);
  Store(static_cast<std::uint8_t>(header.kind), to + kMessageKindAt);
  Store(static_cast<std::uint8_t>(s.kind), to + kCallKindAt);
  Store(static_cast<std::uint8_t>(s.dtype), to + kDTypeAt);
  Store(static_cast<std::uint8_t>(s.op), to + kReduceOpAt);
  Store(static_cast<std::uint8_t>(s.algorithm), to + kAlgorithmAt);
  Store(static_cast<std::uint8_t>(s.wire), to + kWireFormatAt);
  Store(std::uint8_t{0}, to + kReserved1At);
  Store(s.root, to + kRootAt);
  Store(s.count, to + kCountAt);
  Store(header.sequence, to + kSequenceAt);
  Store(header.offset, to + kOffsetAt);
  Store(header.payload_bytes, to + kPayloadBytesAt);
  Store(header.sender, to + kSenderAt);
  Store(header.tag, to + kTagAt);
  Store(s.parts_digest, to + kPartsDigestAt);
}

absl::StatusOr<MessageHeader> DecodeMessageHeader(
    absl::Span<const std::uint8_t> bytes) {
  if (bytes.size() != kMessageHeaderSize) {
    return Corrupt("its length", bytes.size());
  }
  const std::uint8_t* const from = bytes.data();
  if (const auto magic = Load<std::uint32_t>(from + kMagicAt);
      magic != kMagic) {
    return Corrupt("magic number", absl::Hex(magic));
  }
  if (const auto version = from[kVersionAt]; version != kVersion) {
    return Corrupt("version", static_cast<int>(version));
  }
  const auto reserved1 = Load<std::uint8_t>(from + kReserved1At);
  if (reserved1 != 0) return Corrupt("reserved part 1", absl::Hex(reserved1));

  MessageHeader header;
  header.kind = static_cast<MessageKind>(from[kMessageKindAt]);
  header.signature.kind = static_cast<CallKind>(from[kCallKindAt]);
  header.signature.dtype = static_cast<DType>(from[kDTypeAt]);
  header.signature.op = static_cast<ReduceOp>(from[kReduceOpAt]);
  header.signature.algorithm = static_cast<Algorithm>(from[kAlgorithmAt]);
  header.signature.wire = static_cast<WireFormat>(from[kWireFormatAt]);
  header.signature.root = Load<std::int32_t>(from + kRootAt);
  header.signature.count = Load<std::int64_t>(from + kCountAt);
  header.signature.parts_digest = Load<std::uint64_t>(from + kPartsDigestAt);
  header.sequence = Load<std::uint64_t>(from + kSequenceAt);
  header.offset = Load<std::uint64_t>(from + kOffsetAt);
  header.payload_bytes = Load<std::uint64_t>(from + kPayloadBytesAt);
  header.sender = Load<std::int32_t>(from + kSenderAt);
  header.tag = Load<std::int32_t>(from + kTagAt);
  if (absl::Status status = CheckEnumerators(header); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckNumbers(header); !status.ok()) return status;
  return header;
}

}  // namespace shoal::internal
