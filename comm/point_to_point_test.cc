// SPDX-License-Identifier: Apache-2.0
//
// Behaviour case by case; point_to_point_failure_test.cc has what may go wrong,
// point_to_point_simulation_test.cc the rest.

#include "shoal/comm/point_to_point.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point_simulator.h"
#include "shoal/comm/point_to_point_test_support.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(PointToPointTest, SmallSendIsOneWriteAndItsRecvOneRead) {
  world_.Connect(0, 1);
  TestMessage sent = Bytes(1, 5, 4, 1);
  TestMessage received = Bytes(0, 5, 4);
  const auto send = sender().StartSend(sent.SendCall());
  EXPECT_FALSE(sender().IsDone(send));
  EXPECT_TRUE(sender().Progress());
  EXPECT_TRUE(sender().IsDone(send));
  EXPECT_EQ(world_.sender_end(0, 1).writes(), 1);
  EXPECT_EQ(world_.sender_end(0, 1).reads(), 0);

  const auto receive = receiver().StartRecv(received.RecvCall());
  EXPECT_TRUE(receiver().Progress());
  EXPECT_TRUE(receiver().IsDone(receive));
  EXPECT_EQ(world_.receiver_end(0, 1).reads(), 1);
  EXPECT_EQ(world_.receiver_end(0, 1).writes(), 0);
  SHOAL_EXPECT_OK(receiver().result(receive));
  EXPECT_TRUE(sent.Equals(received));
  EXPECT_FALSE(sender().Progress());
  EXPECT_FALSE(receiver().Progress());
}

TEST_F(PointToPointTest, LinkIsAskedForWhenFirstNeeded) {
  EXPECT_EQ(sender().PeerWithoutOutgoing(), -1);
  TestMessage sent = Bytes(1, 0, 3, 1);
  TestMessage received = Bytes(0, 0, 3);
  const auto receive = receiver().StartRecv(received.RecvCall());
  const auto send = sender().StartSend(sent.SendCall());
  EXPECT_EQ(sender().PeerWithoutOutgoing(), 1);
  EXPECT_THAT(sender().DescribeUnfinished(),
              "Send(u8 x 3 to rank 1, tag 0) has no connection yet");
  EXPECT_EQ(receiver().PeerWithoutOutgoing(), -1);
  Run();
  EXPECT_EQ(sender().PeerWithoutOutgoing(), -1);
  EXPECT_TRUE(sender().IsDone(send));
  EXPECT_TRUE(receiver().IsDone(receive));
  EXPECT_TRUE(sent.Equals(received));
  EXPECT_FALSE(world_.IsOpen(1, 0));
}

TEST_F(PointToPointTest, MessagesOfOneTagKeepTheirOrderWhateverTheirSize) {
  const std::int64_t counts[] = {3, kLarge, kEager, 0, kLarge, kEager + 1, 0};
  for (const bool receives_first : {false, true}) {
    std::vector<TestMessage> sent, received;
    for (int i = 0; i < 7; ++i) {
      sent.push_back(Bytes(1, 9, counts[i], i + 1));
      received.push_back(Bytes(0, 9, counts[i]));
    }
    const auto start_receives = [&] {
      for (auto& message : received) receiver().StartRecv(message.RecvCall());
      Run();
    };
    if (receives_first) start_receives();
    for (auto& message : sent) sender().StartSend(message.SendCall());
    Run();
    if (!receives_first) start_receives();
    for (int i = 0; i < 7; ++i) EXPECT_TRUE(sent[i].Equals(received[i])) << i;
    EXPECT_THAT(sender().DescribeUnfinished(), IsEmpty());
    EXPECT_THAT(receiver().DescribeUnfinished(), IsEmpty());
  }
}

TEST_F(PointToPointTest, ALargeMessageKeepsNoOtherTagBack) {
  TestMessage big = Bytes(1, 1, kLarge, 1), small = Bytes(1, 2, 4, 2);
  TestMessage got_big = Bytes(0, 1, kLarge), got_small = Bytes(0, 2, 4);
  sender().StartSend(big.SendCall());
  sender().StartSend(small.SendCall());
  Run();
  const auto second = receiver().StartRecv(got_small.RecvCall());
  EXPECT_TRUE(receiver().IsDone(second));
  EXPECT_TRUE(small.Equals(got_small));
  const auto first = receiver().StartRecv(got_big.RecvCall());
  EXPECT_FALSE(receiver().IsDone(first));
  Run();
  EXPECT_TRUE(receiver().IsDone(first));
  EXPECT_TRUE(big.Equals(got_big));
}

TEST_F(PointToPointTest, LargeSendsToEachOtherWaitAndSaySo) {
  TestMessage sent[] = {Bytes(1, 0, kLarge, 1), Bytes(0, 0, kLarge, 2)};
  TestMessage received[] = {Bytes(1, 0, kLarge), Bytes(0, 0, kLarge)};
  PointToPoint::OperationId sends[2];
  for (int r : {0, 1}) sends[r] = world_.rank(r).StartSend(sent[r].SendCall());
  Run();
  for (int r : {0, 1}) {
    EXPECT_FALSE(world_.rank(r).IsDone(sends[r]));
    EXPECT_THAT(world_.rank(r).AwaitedPeers(), ElementsAre(1 - r));
    EXPECT_THAT(world_.rank(r).DescribeUnfinished(),
                HasSubstr("waits for its Recv"));
  }
  // The other half of SendRecv.
  for (int r : {0, 1}) world_.rank(r).StartRecv(received[r].RecvCall());
  Run();
  for (int r : {0, 1}) {
    EXPECT_THAT(world_.rank(r).DescribeUnfinished(), IsEmpty());
    EXPECT_THAT(world_.rank(r).AwaitedPeers(), IsEmpty());
    EXPECT_TRUE(sent[r].Equals(received[1 - r]));
  }
}

TEST_F(PointToPointTest, BeyondTheCreditMessagesAreAnnounced) {
  std::vector<TestMessage> sent, received;
  for (int i = 0; i < 7; ++i) {
    sent.push_back(Bytes(1, i, kEager, i + 1));
    received.push_back(Bytes(0, i, kEager));
  }
  std::vector<PointToPoint::OperationId> sends;
  for (auto& message : sent) {
    sends.push_back(sender().StartSend(message.SendCall()));
  }
  Run();
  EXPECT_EQ(receiver().unexpected_bytes(0), kOptions.credit_bytes);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(sender().IsDone(sends[i]), i < 4) << i;
  // The last first: nothing that was sent before keeps it back.
  for (int i = 6; i >= 0; --i) {
    const auto receive = receiver().StartRecv(received[i].RecvCall());
    Run();
    EXPECT_TRUE(receiver().IsDone(receive)) << i;
    EXPECT_TRUE(sent[i].Equals(received[i])) << i;
  }
  EXPECT_EQ(receiver().unexpected_bytes(0), 0u);
  // The credit is back: an unasked message goes at once again.
  const auto again = sender().StartSend(sent[0].SendCall());
  sender().Progress();
  EXPECT_TRUE(sender().IsDone(again));
}

TEST_F(PointToPointTest, EmptyMessagesUseCreditToo) {
  for (int i = 0; i < 100; ++i) {
    sender().StartSend(Keep(Bytes(1, 0, 0)).SendCall());
    Run();
    EXPECT_LE(receiver().unexpected_bytes(0), kOptions.credit_bytes);
  }
  EXPECT_EQ(receiver().unexpected_bytes(0),
            kOptions.credit_bytes / kMessageHeaderSize * kMessageHeaderSize);
  std::vector<PointToPoint::OperationId> receives;
  for (int i = 0; i < 100; ++i) {
    receives.push_back(receiver().StartRecv(Keep(Bytes(0, 0, 0)).RecvCall()));
  }
  Run();
  for (const auto id : receives) EXPECT_TRUE(receiver().IsDone(id));
  EXPECT_THAT(sender().DescribeUnfinished(), IsEmpty());
}

TEST_F(PointToPointTest, ASendWaitsWhenTooManyAreAnnounced) {
  std::vector<TestMessage> sent, received;
  for (int i = 0; i < 5; ++i) {
    sent.push_back(Bytes(1, i % 2, kLarge, i + 1));
    received.push_back(Bytes(0, i % 2, kLarge));
  }
  for (auto& message : sent) sender().StartSend(message.SendCall());
  Run();
  EXPECT_THAT(sender().DescribeUnfinished(),
              HasSubstr("Send(u8 x 1000 to rank 1, tag 1) waits for room"));
  EXPECT_THAT(sender().DescribeUnfinished(), HasSubstr("; and 1 more"));
  for (auto& message : received) receiver().StartRecv(message.RecvCall());
  Run();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(sent[i].Equals(received[i])) << i;
}

TEST_F(PointToPointTest, ARecvTakesOverAMessageThatIsJustComingIn) {
  world_.Connect(0, 1);
  TestMessage sent = Bytes(1, 0, kEager, 1);
  TestMessage received = Bytes(0, 0, kEager);
  sender().StartSend(sent.SendCall());
  sender().Progress();
  world_.SetLimit(kMessageHeaderSize + kEager / 2);
  receiver().Progress();
  EXPECT_EQ(receiver().unexpected_bytes(0), kMessageHeaderSize + kEager);
  const auto receive = receiver().StartRecv(received.RecvCall());
  EXPECT_EQ(receiver().unexpected_bytes(0), 0u);
  EXPECT_FALSE(receiver().IsDone(receive));
  receiver().Progress();
  EXPECT_TRUE(receiver().IsDone(receive));
  EXPECT_TRUE(sent.Equals(received));
}

TEST_F(PointToPointTest, IdsAreNotUsedTwice) {
  const auto first = sender().StartSend(Keep(Bytes(1, 0, 1)).SendCall());
  Run();
  EXPECT_TRUE(sender().IsDone(first));
  sender().Forget(first);
  const auto second = sender().StartSend(Keep(Bytes(1, 0, 1)).SendCall());
  EXPECT_NE(first, second);
  EXPECT_NE(first, 0u);
  EXPECT_THAT(sender().result(first), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(sender().result(0), StatusIs(absl::StatusCode::kInternal));
  EXPECT_FALSE(sender().IsDone(second));
}

}  // namespace
}  // namespace shoal::internal
