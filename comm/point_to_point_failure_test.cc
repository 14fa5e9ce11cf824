// SPDX-License-Identifier: Apache-2.0
//
// What the machine makes of calls that do not fit, of bytes that are no
// message, of links that end, and of a failure of the job.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_simulator.h"
#include "shoal/comm/point_to_point_test_support.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Kind = EngineFault::Kind;
using PointToPointFailureTest = PointToPointTest;

TEST_F(PointToPointFailureTest, OtherCountOrTypeIsToldWithBothCalls) {
  const struct {
    TestMessage sent, received;
    const char* text;
  } cases[] = {
      {Bytes(1, 5, 8), Bytes(0, 5, 7),
       "rank 0 called Send(u8 x 8 to rank 1, tag 5) where rank 1 called Recv(u8"
       " x 7 from rank 0, tag 5)"},
      {Bytes(1, 5, 0), Bytes(0, 5, kLarge), "Recv(u8 x 1000"},
      {Bytes(1, 5, kLarge), Bytes(0, 5, 0), "Send(u8 x 1000"},
      {TestMessage(1, 5, 2, DType::kI32, 0), Bytes(0, 5, 8), "Send(i32 x 2"},
      {TestMessage(1, 5, 250, DType::kF32, 0),
       TestMessage(0, 5, 250, DType::kI32, 0), "Recv(i32 x 250"},
  };
  for (auto [sent, received, text] : cases) {
    for (const bool receive_first : {false, true}) {
      PointToPointWorld world(2, kOptions);
      PointToPoint& receiver = world.rank(1);
      PointToPoint::OperationId receive = 0;
      if (receive_first) receive = receiver.StartRecv(received.RecvCall());
      world.rank(0).StartSend(sent.SendCall());
      EXPECT_EQ(world.RunUntilParked(), "");
      if (!receive_first) receive = receiver.StartRecv(received.RecvCall());
      EXPECT_EQ(receiver.fault().kind, Kind::kMismatch);
      EXPECT_EQ(receiver.fault().peer, 0);
      EXPECT_TRUE(receiver.IsDone(receive));
      EXPECT_THAT(
          receiver.result(receive),
          StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(text)));
    }
  }
}

TEST_F(PointToPointFailureTest, WhatIsNoMessageIsCorrupt) {
  const auto changed = [](MessageHeader header,
                          const std::function<void(MessageHeader&)>& change) {
    change(header);
    return header;
  };
  const MessageHeader small = Header(MessageKind::kEager, 1, 4);
  const struct {
    std::string bytes;
    const char* text;
  } cases[] = {
      {std::string(kMessageHeaderSize, 'x'), "damaged"},
      {Encode(changed(small, [](auto& h) { h.sender = 1; })), "rank 1"},
      {Encode(changed(small, [](auto& h) { h.payload_bytes = 5; })), "5 bytes"},
      {Encode(changed(small, [](auto& h) { h.sequence = 2; })), "#1 was due"},
      {Encode(
           changed(small, [](auto& h) { h.signature.kind = CallKind::kRecv; })),
       "Recv("},
      {Encode(changed(small, [](auto& h) { h.kind = MessageKind::kReady; })),
       "does not go from a sender"},
      {Encode(Header(MessageKind::kCollective, 1, 4)),
       "does not go from a sender"},
      {Encode(Header(MessageKind::kEager, 1, kEager + 1)), "not asked for"},
      {Encode(Header(MessageKind::kRendezvous, 1, kLarge)), "not asked for"},
  };
  for (const auto& [bytes, text] : cases) {
    PointToPointWorld world(2, kOptions);
    world.Connect(0, 1);
    world.data(0, 1).bytes = bytes;
    world.rank(1).Progress();
    EXPECT_EQ(world.rank(1).fault().kind, Kind::kCorrupt) << text;
    EXPECT_EQ(world.rank(1).fault().peer, 0);
    EXPECT_THAT(world.rank(1).fault().status,
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text)));
    std::vector<LinkInterest> interest;
    world.rank(1).AppendInterest(&interest);
    EXPECT_THAT(interest, IsEmpty());
  }
}

TEST_F(PointToPointFailureTest, MoreThanTheCreditIsCorrupt) {
  for (std::uint64_t i = 1; i <= 4; ++i) {
    Inject(Encode(Header(MessageKind::kEager, i, kEager), kEager));
    EXPECT_TRUE(receiver().fault().ok());
  }
  Inject(Encode(Header(MessageKind::kEager, 5, 0)));
  EXPECT_EQ(receiver().fault().kind, Kind::kCorrupt);
  EXPECT_THAT(receiver().fault().status,
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("0 bytes of credit are left")));
}

TEST_F(PointToPointFailureTest, TooManyAnnouncementsAreCorrupt) {
  for (std::uint64_t i = 1; i <= 3; ++i) {
    Inject(Encode(Header(MessageKind::kAnnounce, i, kLarge)));
    EXPECT_TRUE(receiver().fault().ok());
  }
  Inject(Encode(Header(MessageKind::kAnnounce, 4, kLarge)));
  EXPECT_EQ(receiver().fault().kind, Kind::kCorrupt);
}

TEST_F(PointToPointFailureTest, AnAnnouncedMessageOfAnotherLengthIsCorrupt) {
  receiver().StartRecv(Keep(Bytes(0, 0, kLarge)).RecvCall());
  Inject(Encode(Header(MessageKind::kAnnounce, 1, kLarge)));
  Inject(Encode(Header(MessageKind::kRendezvous, 1, kLarge + 1)));
  EXPECT_EQ(receiver().fault().kind, Kind::kCorrupt);
  EXPECT_THAT(receiver().fault().status.message(), HasSubstr("another length"));
}

TEST_F(PointToPointFailureTest, ASecondConnectionIsCorrupt) {
  world_.Connect(0, 1);
  receiver().SetIncoming(0, &world_.receiver_end(0, 1));
  EXPECT_EQ(receiver().fault().kind, Kind::kCorrupt);
}

TEST_F(PointToPointFailureTest, WrongAnswersAreCorrupt) {
  const auto answer = [](MessageKind kind, std::uint64_t sequence,
                         std::uint64_t offset, std::int32_t sender) {
    MessageHeader header;
    header.kind = kind;
    header.signature.kind = CallKind::kRecv;
    header.sequence = sequence;
    header.offset = offset;
    header.sender = sender;
    return Encode(header);
  };
  const struct {
    std::string bytes;
    const char* text;
  } cases[] = {
      {std::string(kMessageHeaderSize, 'x'), "damaged"},
      {answer(MessageKind::kReady, 2, 0, 1), "#2"},
      {answer(MessageKind::kReady, 1, 0, 1) +
           answer(MessageKind::kReady, 1, 0, 1),
       "#1"},
      {answer(MessageKind::kCredit, 0, 1, 1), "returns 1 bytes"},
      {answer(MessageKind::kReady, 1, 0, 0), "from rank 0"},
      {answer(MessageKind::kEager, 1, 0, 1), "does not go from a receiver"},
  };
  for (const auto& [bytes, text] : cases) {
    PointToPointWorld world(2, kOptions);
    const auto send =
        world.rank(0).StartSend(Keep(Bytes(1, 0, kLarge)).SendCall());
    world.Connect(0, 1);
    world.rank(0).Progress();
    world.back(0, 1).bytes = bytes;
    world.rank(0).Progress();
    EXPECT_EQ(world.rank(0).fault().kind, Kind::kCorrupt) << text;
    EXPECT_THAT(world.rank(0).result(send),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text)));
  }
}

// Where a transfer of a large message may be when its link ends.
TEST_F(PointToPointFailureTest, AnEndIsAFaultWhileAnOperationNeedsTheLink) {
  constexpr std::size_t kSteps = 3 * kMessageHeaderSize + kLarge;
  for (std::size_t bytes = 0; bytes < kSteps; bytes += 13) {
    PointToPointWorld world(2, kOptions);
    world.Connect(0, 1);
    TestMessage sent = Bytes(1, 0, kLarge, 1), received = Bytes(0, 0, kLarge);
    const auto send = world.rank(0).StartSend(sent.SendCall());
    const auto receive = world.rank(1).StartRecv(received.RecvCall());
    world.SetLimit(1);
    for (std::size_t i = 0; i < bytes; ++i) {
      world.rank(0).Progress();
      world.rank(1).Progress();
    }
    world.sender_end(0, 1).End("Connection timed out");
    world.SetLimit(kNoLimit);
    const std::string problem = world.RunUntilParked();
    EXPECT_EQ(problem, "") << bytes;
    for (int r : {0, 1}) {
      const auto id = r == 0 ? send : receive;
      ASSERT_TRUE(world.rank(r).IsDone(id)) << r << " " << bytes;
      if (world.rank(r).result(id).ok()) continue;
      EXPECT_EQ(world.rank(r).fault().kind, Kind::kPeerLost);
      EXPECT_EQ(world.rank(r).fault().peer, 1 - r);
      EXPECT_THAT(
          world.rank(r).result(id),
          StatusIs(absl::StatusCode::kUnavailable, HasSubstr("u8 x 1000")));
    }
    EXPECT_FALSE(world.rank(0).result(send).ok());
    EXPECT_THAT(world.rank(0).result(send).message(),
                HasSubstr("Connection timed out"));
  }
}

TEST_F(PointToPointFailureTest, AnEndThatNobodyNeedsIsNoFault) {
  TestMessage sent = Bytes(1, 0, 9, 1), received = Bytes(0, 0, 9);
  sender().StartSend(sent.SendCall());
  Run();
  world_.Kill(0);
  Run();
  EXPECT_TRUE(receiver().fault().ok());
  // What came in before the end is there for its Recv; then nothing is.
  const auto first = receiver().StartRecv(received.RecvCall());
  EXPECT_TRUE(receiver().IsDone(first));
  EXPECT_TRUE(sent.Equals(received));
  EXPECT_TRUE(receiver().fault().ok());
  const auto second = receiver().StartRecv(received.RecvCall());
  EXPECT_TRUE(receiver().IsDone(second));
  EXPECT_EQ(receiver().fault().kind, Kind::kPeerLost);
}

TEST_F(PointToPointFailureTest,
       ARecvOfAnAnnouncementWhoseSenderIsGoneIsAFault) {
  sender().StartSend(Keep(Bytes(1, 0, kLarge)).SendCall());
  Run();
  world_.Kill(0);
  Run();
  EXPECT_TRUE(receiver().fault().ok());
  receiver().StartRecv(Keep(Bytes(0, 0, kLarge)).RecvCall());
  EXPECT_EQ(receiver().fault().kind, Kind::kPeerLost);
}

TEST_F(PointToPointFailureTest, ASendToAReceiverThatHasShutDownIsAFault) {
  world_.Connect(0, 1);
  sender().StartSend(Keep(Bytes(1, 0, kLarge)).SendCall());
  Run();
  world_.receiver_end(0, 1).ShutdownWrite();
  Run();
  EXPECT_EQ(sender().fault().kind, Kind::kPeerLost);
}

TEST_F(PointToPointFailureTest,
       AnAnnouncementAfterTheReceiversShutdownIsAFault) {
  // So many small ones that the sender looks for credit, and finds the end.
  for (int i = 0; i < 3; ++i) {
    sender().StartSend(Keep(Bytes(1, 0, kEager)).SendCall());
  }
  Run();
  world_.receiver_end(0, 1).ShutdownWrite();
  sender().Progress();
  EXPECT_TRUE(sender().fault().ok());
  sender().StartSend(Keep(Bytes(1, 0, kLarge)).SendCall());
  Run();
  EXPECT_EQ(sender().fault().kind, Kind::kPeerLost);
}

TEST_F(PointToPointFailureTest, ARequestThatCannotBeSentIsAFault) {
  receiver().StartRecv(Keep(Bytes(0, 0, kEager)).RecvCall());
  receiver().StartRecv(Keep(Bytes(0, 0, kLarge)).RecvCall());
  world_.Connect(0, 1);
  world_.back(0, 1).abandoned = true;
  // Credit that cannot be given back is no fault.
  Inject(Encode(Header(MessageKind::kEager, 1, kEager), kEager));
  EXPECT_TRUE(receiver().fault().ok());
  Inject(Encode(Header(MessageKind::kAnnounce, 2, kLarge)));
  EXPECT_EQ(receiver().fault().kind, Kind::kPeerLost);
}

TEST_F(PointToPointFailureTest, FailEndsEverythingAndTheFirstFailureStays) {
  TestMessage received = Bytes(0, 0, 5);
  const TestMessage before = received;
  const auto receive = receiver().StartRecv(received.RecvCall());
  receiver().Fail(absl::AbortedError("first"));
  receiver().Fail(absl::AbortedError("second"));
  EXPECT_TRUE(receiver().IsDone(receive));
  EXPECT_THAT(receiver().result(receive),
              StatusIs(absl::StatusCode::kAborted, "first"));
  sender().StartSend(Keep(Bytes(1, 0, 5, 7)).SendCall());
  Run();
  EXPECT_FALSE(receiver().Progress());
  EXPECT_TRUE(before.Equals(received)) << "written after the failure";
  const auto later = receiver().StartSend(Keep(Bytes(0, 0, 5)).SendCall());
  EXPECT_TRUE(receiver().IsDone(later));
  EXPECT_THAT(receiver().result(later),
              StatusIs(absl::StatusCode::kAborted, "first"));
  EXPECT_EQ(receiver().PeerWithoutOutgoing(), -1);
}

TEST_F(PointToPointFailureTest, TheDriversReasonReplacesTheFaults) {
  receiver().StartRecv(Keep(Bytes(0, 0, 5)).RecvCall());
  world_.Connect(0, 1);
  world_.Kill(0);
  Run();
  const auto late = receiver().StartRecv(Keep(Bytes(0, 0, 5)).RecvCall());
  EXPECT_THAT(receiver().result(late),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost")));
  receiver().Fail(absl::UnavailableError("rank 0 died"));
  EXPECT_THAT(receiver().result(late),
              StatusIs(absl::StatusCode::kUnavailable, "rank 0 died"));
}

}  // namespace
}  // namespace shoal::internal
