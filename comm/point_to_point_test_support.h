// SPDX-License-Identifier: Apache-2.0
//
// Two ranks that send to each other, for tests.

#ifndef SHOAL_COMM_POINT_TO_POINT_TEST_SUPPORT_H_
#define SHOAL_COMM_POINT_TO_POINT_TEST_SUPPORT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_options.h"
#include "shoal/comm/point_to_point_simulator.h"

namespace shoal::internal {

inline constexpr std::size_t kEager = 40;
inline constexpr std::size_t kLarge = 1000;
inline constexpr PointToPointOptions kOptions = {
    /*eager_bytes=*/kEager, /*credit_bytes=*/4 * (kMessageHeaderSize + kEager),
    /*announced_messages=*/3};

inline TestMessage Bytes(int peer, int tag, std::int64_t count, int seed = 0) {
  return TestMessage(peer, tag, count, DType::kU8, seed);
}

// What a peer of another make might put on a link.
inline std::string Encode(const MessageHeader& header,
                          std::size_t payload_bytes = 0) {
  std::uint8_t bytes[kMessageHeaderSize];
  EncodeMessageHeader(header, absl::MakeSpan(bytes));
  return std::string(bytes, bytes + kMessageHeaderSize) +
         std::string(payload_bytes, 'x');
}

inline MessageHeader Header(MessageKind kind, std::uint64_t sequence,
                            std::int64_t count) {
  MessageHeader header;
  header.kind = kind;
  header.signature.kind = CallKind::kSend;
  header.signature.count = count;
  header.sequence = sequence;
  header.payload_bytes = kind == MessageKind::kAnnounce ? 0 : count;
  return header;
}

// Two ranks and the messages between them.
class PointToPointTest : public testing::Test {
 protected:
  PointToPointTest() : world_(2, kOptions) {}

  PointToPoint& sender() { return world_.rank(0); }
  PointToPoint& receiver() { return world_.rank(1); }
  void Run() { EXPECT_EQ(world_.RunUntilParked(), ""); }

  // The receiver reads `bytes` from rank 0's link.
  void Inject(const std::string& bytes) {
    world_.Connect(0, 1);
    world_.data(0, 1).bytes += bytes;
    receiver().Progress();
  }

  // A message whose memory outlives every operation.
  TestMessage& Keep(TestMessage message) {
    return kept_.emplace_back(std::move(message));
  }

  PointToPointWorld world_;
  std::deque<TestMessage> kept_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_POINT_TO_POINT_TEST_SUPPORT_H_
