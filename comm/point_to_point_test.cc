// SPDX-License-Identifier: Apache-2.0
//
// Behaviour case by case; point_to_point_simulation_test.cc has the rest.

#include "shoal/comm/point_to_point.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point_options.h"
#include "shoal/comm/point_to_point_simulator.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}  // namespace

ABSL_ATTRIBUTE_NOINLINE void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory) noexcept {
  std::free(memory);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory,
                                             std::size_t) noexcept {
  std::free(memory);
}

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Kind = EngineFault::Kind;

constexpr std::size_t kEager = 40;
constexpr std::size_t kLarge = 1000;
constexpr PointToPointOptions kOptions = {
    /*eager_bytes=*/kEager, /*credit_bytes=*/4 * (kMessageHeaderSize + kEager),
    /*announced_messages=*/3};

TestMessage Bytes(int peer, int tag, std::int64_t count, int seed = 0) {
  return TestMessage(peer, tag, count, DType::kU8, seed);
}

// Two ranks and the messages between them.
class PointToPointTest : public testing::Test {
 protected:
  PointToPointTest() : world_(2, kOptions) {}

  PointToPoint& sender() { return world_.rank(0); }
  PointToPoint& receiver() { return world_.rank(1); }
  void Run() { EXPECT_EQ(world_.RunUntilParked(), ""); }

  // What a peer of another make might put on a link.
  static std::string Encode(const MessageHeader& header,
                            std::size_t payload_bytes = 0) {
    std::uint8_t bytes[kMessageHeaderSize];
    EncodeMessageHeader(header, absl::MakeSpan(bytes));
    return std::string(bytes, bytes + kMessageHeaderSize) +
           std::string(payload_bytes, 'x');
  }
  static MessageHeader Header(MessageKind kind, std::uint64_t sequence,
                              std::int64_t count) {
    MessageHeader header;
    header.kind = kind;
    header.signature.kind = CallKind::kSend;
    header.signature.count = count;
    header.sequence = sequence;
    header.payload_bytes = kind == MessageKind::kAnnounce ? 0 : count;
    return header;
  }
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

TEST_F(PointToPointTest, OtherCountOrTypeIsToldWithBothCalls) {
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

TEST_F(PointToPointTest, WhatIsNoMessageIsCorrupt) {
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

TEST_F(PointToPointTest, MoreThanTheCreditIsCorrupt) {
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

TEST_F(PointToPointTest, TooManyAnnouncementsAreCorrupt) {
  for (std::uint64_t i = 1; i <= 3; ++i) {
    Inject(Encode(Header(MessageKind::kAnnounce, i, kLarge)));
    EXPECT_TRUE(receiver().fault().ok());
  }
  Inject(Encode(Header(MessageKind::kAnnounce, 4, kLarge)));
  EXPECT_EQ(receiver().fault().kind, Kind::kCorrupt);
}

TEST_F(PointToPointTest, AnAnnouncedMessageOfAnotherLengthIsCorrupt) {
  receiver().StartRecv(Keep(Bytes(0, 0, kLarge)).RecvCall());
  Inject(Encode(Header(MessageKind::kAnnounce, 1, kLarge)));
  Inject(Encode(Header(MessageKind::kRendezvous, 1, kLarge + 1)));
  EXPECT_EQ(receiver().fault().kind, Kind::kCorrupt);
  EXPECT_THAT(receiver().fault().status.message(), HasSubstr("another length"));
}

TEST_F(PointToPointTest, ASecondConnectionIsCorrupt) {
  world_.Connect(0, 1);
  receiver().SetIncoming(0, &world_.receiver_end(0, 1));
  EXPECT_EQ(receiver().fault().kind, Kind::kCorrupt);
}

TEST_F(PointToPointTest, WrongAnswersAreCorrupt) {
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
TEST_F(PointToPointTest, AnEndIsAFaultWhileAnOperationNeedsTheLink) {
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

TEST_F(PointToPointTest, AnEndThatNobodyNeedsIsNoFault) {
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

TEST_F(PointToPointTest, ARecvOfAnAnnouncementWhoseSenderIsGoneIsAFault) {
  sender().StartSend(Keep(Bytes(1, 0, kLarge)).SendCall());
  Run();
  world_.Kill(0);
  Run();
  EXPECT_TRUE(receiver().fault().ok());
  receiver().StartRecv(Keep(Bytes(0, 0, kLarge)).RecvCall());
  EXPECT_EQ(receiver().fault().kind, Kind::kPeerLost);
}

TEST_F(PointToPointTest, ASendToAReceiverThatHasShutDownIsAFault) {
  world_.Connect(0, 1);
  sender().StartSend(Keep(Bytes(1, 0, kLarge)).SendCall());
  Run();
  world_.receiver_end(0, 1).ShutdownWrite();
  Run();
  EXPECT_EQ(sender().fault().kind, Kind::kPeerLost);
}

TEST_F(PointToPointTest, AnAnnouncementAfterTheReceiversShutdownIsAFault) {
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

TEST_F(PointToPointTest, ARequestThatCannotBeSentIsAFault) {
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

TEST_F(PointToPointTest, FailEndsEverythingAndTheFirstFailureStays) {
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

TEST_F(PointToPointTest, TheDriversReasonReplacesTheFaults) {
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

TEST_F(PointToPointTest, AllocatesNothingForMessagesThatAreAskedFor) {
  TestMessage sent[] = {Bytes(1, 0, 1, 1), Bytes(1, 0, kEager, 2),
                        Bytes(1, 0, kLarge, 3)};
  TestMessage received[] = {Bytes(0, 0, 1), Bytes(0, 0, kEager),
                            Bytes(0, 0, kLarge)};
  world_.Connect(0, 1);
  const auto exchange = [&] {
    for (int i = 0; i < 3; ++i) {
      const auto receive = receiver().StartRecv(received[i].RecvCall());
      const auto send = sender().StartSend(sent[i].SendCall());
      bool moved = true;
      while (moved) {
        moved = sender().Progress();
        moved |= receiver().Progress();
      }
      ASSERT_TRUE(sender().IsDone(send) && receiver().IsDone(receive));
      sender().Forget(send);
      receiver().Forget(receive);
    }
  };
  for (int i = 0; i < 10; ++i) exchange();
  const std::int64_t before = allocations;
  for (int i = 0; i < 1000; ++i) exchange();
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace shoal::internal
