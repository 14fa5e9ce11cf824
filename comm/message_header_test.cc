// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/message_header.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Bytes = std::array<std::uint8_t, kMessageHeaderSize>;

MessageHeader Example() {
  MessageHeader header;
  header.kind = MessageKind::kEager;
  header.signature.kind = CallKind::kSend;
  header.signature.dtype = DType::kBF16;
  header.signature.op = ReduceOp::kMax;
  header.signature.algorithm = Algorithm::kRing;
  header.signature.count = 0x0102030405060708;
  header.signature.root = 0x11121314;
  header.signature.wire = WireFormat::kQ8_0;
  header.sequence = 0xF1F2F3F4F5F6F7F8;
  header.offset = 0x2122232425262728;
  header.payload_bytes = 0x3132333435363738;
  header.sender = 0x41424344;
  header.tag = 0x51525354;
  return header;
}

Bytes Encode(const MessageHeader& header) {
  Bytes bytes;
  bytes.fill(0xEE);  // whatever is there is overwritten
  EncodeMessageHeader(header, absl::MakeSpan(bytes));
  return bytes;
}

void ExpectSame(const MessageHeader& a, const MessageHeader& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.signature, b.signature);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.sender, b.sender);
  EXPECT_EQ(a.tag, b.tag);
}

// The format, byte by byte: it must never change under this version.
TEST(MessageHeaderTest, Layout) {
  const std::uint8_t expected[kMessageHeaderSize] = {
      'S',  'H',  'A',  'L',                           // magic
      1,                                               // version
      2,                                               // kEager
      6,                                               // kSend
      3,                                               // kBF16
      3,                                               // kMax
      1,                                               // kRing
      3,                                               // wire format
      0,                                               // reserved
      0x14, 0x13, 0x12, 0x11,                          // root
      0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,  // count
      0xF8, 0xF7, 0xF6, 0xF5, 0xF4, 0xF3, 0xF2, 0xF1,  // sequence
      0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,  // offset
      0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,  // payload_bytes
      0x44, 0x43, 0x42, 0x41,                          // sender
      0x54, 0x53, 0x52, 0x51,                          // tag
      0,    0,    0,    0,    0,    0,    0,    0,     // digest of parts
  };
  EXPECT_THAT(Encode(Example()), ElementsAreArray(expected));
}

TEST(MessageHeaderTest, ComesBackAsItWas) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const MessageHeader decoded,
                             DecodeMessageHeader(Encode(Example())));
  ExpectSame(decoded, Example());

  // The ends of the ranges.
  MessageHeader header;
  header.signature.kind = CallKind::kAllGatherV;
  header.signature.parts_digest = std::numeric_limits<std::uint64_t>::max();
  header.signature.dtype = DType::kU8;
  header.signature.count = std::int64_t{1} << 62;
  header.signature.root = std::numeric_limits<std::int32_t>::max();
  header.sequence = std::numeric_limits<std::uint64_t>::max();
  header.offset = std::uint64_t{1} << 62;
  header.payload_bytes = std::uint64_t{1} << 62;
  header.sender = std::numeric_limits<std::int32_t>::max();
  header.tag = std::numeric_limits<std::int32_t>::max();
  SHOAL_ASSERT_OK_AND_ASSIGN(const MessageHeader extreme,
                             DecodeMessageHeader(Encode(header)));
  ExpectSame(extreme, header);
}

TEST(MessageHeaderTest, EveryEnumeratorComesBack) {
  for (int kind = 1; kind <= 6; ++kind) {
    for (int call = 1; call <= 13; ++call) {
      for (DType dtype : kAllDTypes) {
        for (ReduceOp op : kAllReduceOps) {
          for (int algorithm = 0; algorithm <= 11; ++algorithm) {
            MessageHeader header;
            header.kind = static_cast<MessageKind>(kind);
            header.signature.kind = static_cast<CallKind>(call);
            header.signature.dtype = dtype;
            header.signature.op = op;
            header.signature.algorithm = static_cast<Algorithm>(algorithm);
            SHOAL_ASSERT_OK_AND_ASSIGN(const MessageHeader decoded,
                                       DecodeMessageHeader(Encode(header)));
            ExpectSame(decoded, header);
          }
        }
      }
    }
  }
}

struct Damage {
  std::size_t at;
  std::uint8_t value;
  const char* named;
};

TEST(MessageHeaderTest, RefusesWhatIsDamaged) {
  const Damage kDamages[] = {
      {0, 's', "magic number"},    {3, 0, "magic number"},
      {4, 0, "version is 0"},      {4, 2, "version is 2"},
      {5, 0, "message kind is 0"}, {5, 7, "message kind is 7"},
      {6, 0, "call kind is 0"},    {6, 14, "call kind is 14"},
      {7, 8, "element type is 8"}, {7, 255, "element type is 255"},
      {8, 9, "reduction is 9"},    {9, 12, "algorithm is 12"},
      {10, 4, "wire format"},      {11, 0x80, "reserved part 1"},
      {15, 0x80, "root is -"},     {23, 0x80, "count is -"},
      {23, 0x41, "count is 4"},    {39, 0x41, "offset is 4"},
      {39, 0xFF, "offset is 1"},   {47, 0x41, "payload length is 4"},
      {51, 0x80, "sender is -"},   {55, 0xFF, "tag is -"},
      {56, 1, "digest of parts"},  {63, 0x80, "digest of parts"},
  };
  for (const Damage& damage : kDamages) {
    Bytes bytes = Encode(Example());
    bytes[damage.at] = damage.value;
    EXPECT_THAT(DecodeMessageHeader(bytes),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(damage.named)))
        << "byte " << damage.at;
  }
}

TEST(MessageHeaderTest, CountTimesElementSizeHasToFit) {
  MessageHeader header;
  header.signature.dtype = DType::kF64;
  header.signature.count = std::int64_t{1} << 59;
  SHOAL_EXPECT_OK(DecodeMessageHeader(Encode(header)));
  ++header.signature.count;
  EXPECT_THAT(DecodeMessageHeader(Encode(header)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("count")));
}

TEST(MessageHeaderTest, RefusesAnotherLength) {
  const Bytes bytes = Encode(Example());
  for (std::size_t size : {std::size_t{0}, std::size_t{63}}) {
    EXPECT_THAT(DecodeMessageHeader(absl::MakeConstSpan(bytes).first(size)),
                StatusIs(absl::StatusCode::kDataLoss));
  }
}

// Whatever comes in is either refused or is exactly what a sender could have
// written: no bit is ignored.
TEST(MessageHeaderTest, NoBitIsIgnored) {
  std::mt19937_64 random(20240229);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    Bytes bytes = Encode(Example());
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < changes; ++k) {
      // Small values often, since most fields have few valid ones.
      const bool small = random() % 2 == 0;
      bytes[random() % kMessageHeaderSize] =
          static_cast<std::uint8_t>(random() % (small ? 8 : 256));
    }
    const absl::StatusOr<MessageHeader> header = DecodeMessageHeader(bytes);
    if (!header.ok()) {
      ASSERT_THAT(header, StatusIs(absl::StatusCode::kDataLoss));
      continue;
    }
    ++accepted;
    ASSERT_EQ(Encode(*header), bytes);
  }
  EXPECT_GT(accepted, 1000);
}

TEST(MessageHeaderTest, RubbishIsRefused) {
  std::mt19937_64 random(42);
  for (int i = 0; i < 100'000; ++i) {
    Bytes bytes;
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    ASSERT_THAT(DecodeMessageHeader(bytes),
                StatusIs(absl::StatusCode::kDataLoss));
  }
}

}  // namespace
}  // namespace shoal::internal
