// SPDX-License-Identifier: Apache-2.0
//
// What point_to_point_test.cc does not reach through the whole machine: the
// credit and the requests as they go back, and input that is cut anywhere.

#include "shoal/comm/incoming_channel.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point_operation.h"
#include "shoal/comm/point_to_point_simulator.h"
#include "shoal/comm/point_to_point_test_support.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;
using State = PointToPointOperation::State;

constexpr std::size_t kCost = kMessageHeaderSize + kEager;

// The channel of rank 1 for what rank 0 sends, with the test as rank 0.
struct Channel {
  Channel() { channel.SetLink(&link); }

  void Arrive(const std::string& bytes) {
    in.bytes += bytes;
    channel.Read();
  }

  // A Recv of `count` bytes that has been started.
  PointToPointOperation& Start(int tag, std::int64_t count) {
    messages.push_back(Bytes(0, tag, count));
    operations.emplace_back();
    PointToPointOperation& receive = operations.back();
    receive.call = messages.back().RecvCall();
    receive.bytes = static_cast<std::size_t>(count);
    receive.state = State::kStarted;
    channel.Start(&receive);
    return receive;
  }

  // The headers that have gone back.
  std::vector<MessageHeader> TakeWritten() {
    std::vector<MessageHeader> headers;
    EXPECT_EQ(out.bytes.size() % kMessageHeaderSize, 0u);
    for (std::size_t at = 0; at < out.bytes.size(); at += kMessageHeaderSize) {
      headers.push_back(
          DecodeMessageHeader(
              absl::MakeConstSpan(
                  reinterpret_cast<const std::uint8_t*>(out.bytes.data()) + at,
                  kMessageHeaderSize))
              .value());
    }
    out.bytes.clear();
    return headers;
  }

  std::string Describe() const {
    std::string state;
    channel.AppendState(&state);
    return state;
  }

  SimulatedPipe in;
  SimulatedPipe out;
  std::size_t limit = kNoLimit;
  SimulatedLink link{&in, &out, &limit};
  EngineFault fault;
  IncomingChannel channel{1, 0, kOptions, &fault};
  std::deque<TestMessage> messages;
  std::deque<PointToPointOperation> operations;
};

std::string Eager(std::uint64_t sequence, int tag, std::int64_t count) {
  MessageHeader header = Header(MessageKind::kEager, sequence, count);
  header.tag = tag;
  return Encode(header, static_cast<std::size_t>(count));
}

std::string Announcement(std::uint64_t sequence, int tag, std::int64_t count) {
  MessageHeader header = Header(MessageKind::kAnnounce, sequence, count);
  header.tag = tag;
  return Encode(header);
}

std::string Announced(std::uint64_t sequence, std::int64_t count) {
  return Encode(Header(MessageKind::kRendezvous, sequence, count),
                static_cast<std::size_t>(count));
}

TEST(IncomingChannelTest, WaitsForALink) {
  EngineFault fault;
  IncomingChannel channel(1, 0, kOptions, &fault);
  EXPECT_EQ(channel.link(), nullptr);
  EXPECT_FALSE(channel.CanRead());
  EXPECT_FALSE(channel.WantsWrite());
  EXPECT_FALSE(channel.AwaitsMessage());
  PointToPointOperation receive;
  TestMessage message = Bytes(0, 0, 1);
  receive.call = message.RecvCall();
  receive.bytes = 1;
  receive.state = State::kStarted;
  channel.Start(&receive);
  EXPECT_TRUE(channel.AwaitsMessage());
  EXPECT_TRUE(fault.ok());
}

// A Recv goes through its states, and only the two in which a message has to
// come make the channel wait for one.
TEST(IncomingChannelTest, AwaitsAMessageWhileOneHasToCome) {
  Channel c;
  EXPECT_TRUE(c.channel.CanRead());
  EXPECT_FALSE(c.channel.AwaitsMessage());
  PointToPointOperation& receive = c.Start(5, kLarge);
  EXPECT_TRUE(c.channel.AwaitsMessage());
  EXPECT_FALSE(c.channel.WantsWrite());
  c.Arrive(Announcement(1, 5, kLarge));
  EXPECT_EQ(receive.state, State::kAnnounced);
  EXPECT_FALSE(c.channel.AwaitsMessage()) << "first it has to be asked for";
  EXPECT_TRUE(c.channel.WantsWrite());
  EXPECT_TRUE(c.channel.Write());
  EXPECT_EQ(receive.state, State::kReady);
  EXPECT_TRUE(c.channel.AwaitsMessage());
  EXPECT_FALSE(c.channel.WantsWrite());
  c.Arrive(Announced(1, kLarge));
  EXPECT_EQ(receive.state, State::kDone);
  EXPECT_FALSE(c.channel.AwaitsMessage());
  EXPECT_EQ(c.messages[0].memory, std::vector<std::uint8_t>(kLarge, 'x'));
  EXPECT_TRUE(c.fault.ok());
}

// Of four messages' worth of credit a quarter is one message's: less than that
// stays owed, and goes back with what makes it enough.
TEST(IncomingChannelTest, CreditGoesBackOnceItIsAQuarter) {
  Channel c;
  c.Start(0, kEager - 1);
  c.Arrive(Eager(1, 0, kEager - 1));
  EXPECT_FALSE(c.channel.WantsWrite()) << "a byte less than a quarter";
  EXPECT_FALSE(c.channel.Write());
  c.Start(0, 0);
  c.Arrive(Eager(2, 0, 0));
  EXPECT_TRUE(c.channel.WantsWrite());
  EXPECT_TRUE(c.channel.Write());
  EXPECT_FALSE(c.channel.WantsWrite());
  const std::vector<MessageHeader> written = c.TakeWritten();
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].kind, MessageKind::kCredit);
  EXPECT_EQ(written[0].offset, kCost - 1 + kMessageHeaderSize);
  EXPECT_EQ(written[0].sender, 1);
}

// What was kept costs credit from its arrival until its Recv takes it, and can
// be used again only once the sender has it back.
TEST(IncomingChannelTest, KeptMessagesAreCountedUntilTheyAreTaken) {
  Channel c;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    c.Arrive(Eager(i, static_cast<int>(i), kEager));
    EXPECT_EQ(c.channel.unexpected_bytes(), i * kCost);
  }
  for (const int tag : {3, 1}) {
    EXPECT_EQ(c.Start(tag, kEager).state, State::kDone) << "it was there";
  }
  EXPECT_EQ(c.channel.unexpected_bytes(), 2 * kCost);
  EXPECT_FALSE(c.channel.AwaitsMessage());
  c.channel.Write();
  const std::vector<MessageHeader> written = c.TakeWritten();
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].offset, 2 * kCost);
  for (std::uint64_t i = 5; i <= 6; ++i) c.Arrive(Eager(i, 9, kEager));
  EXPECT_TRUE(c.fault.ok());
  c.Arrive(Eager(7, 9, 0));
  EXPECT_EQ(c.fault.kind, EngineFault::Kind::kCorrupt);
}

TEST(IncomingChannelTest, RequestsGoBackInTheirOrderAFewAtATime) {
  constexpr int kRequests = 20;
  Channel c;
  for (int i = 0; i < kRequests; ++i) c.Start(i, kLarge);
  for (int i = kRequests; i-- > 0;) {
    c.Arrive(
        Announcement(static_cast<std::uint64_t>(kRequests - i), i, kLarge));
  }
  EXPECT_TRUE(c.channel.Write());
  EXPECT_EQ(c.link.writes(), 3) << "eight, eight and four";
  const std::vector<MessageHeader> written = c.TakeWritten();
  ASSERT_EQ(written.size(), static_cast<std::size_t>(kRequests));
  for (int i = 0; i < kRequests; ++i) {
    EXPECT_EQ(written[i].kind, MessageKind::kReady);
    EXPECT_EQ(written[i].sequence, static_cast<std::uint64_t>(i) + 1);
    EXPECT_EQ(written[i].tag, kRequests - 1 - i);
    EXPECT_EQ(written[i].signature.count, static_cast<std::int64_t>(kLarge));
  }
  // The sender may answer in any order.
  for (const std::uint64_t sequence : {7, 1, 20}) {
    c.Arrive(Announced(sequence, kLarge));
    EXPECT_EQ(c.operations[kRequests - sequence].state, State::kDone);
  }
  EXPECT_TRUE(c.fault.ok());
}

// However a link cuts what it takes and gives, the bytes are the same.
TEST(IncomingChannelTest, AnyCutWillDo) {
  const std::string first = Eager(1, 1, 3) + Announcement(2, 2, kLarge) +
                            Eager(3, 1, 0) + Eager(4, 3, kEager) +
                            Announcement(5, 3, kLarge);
  const std::string then = Announced(5, kLarge) + Eager(6, 4, 1);
  std::string whole;
  for (const std::size_t limit : {kNoLimit, std::size_t{1}, std::size_t{7},
                                  kMessageHeaderSize, kMessageHeaderSize + 1}) {
    Channel c;
    c.limit = limit;
    const auto run = [&] {
      bool moved = true;
      while (moved) {
        moved = c.channel.Read();
        moved |= c.channel.Write();
      }
    };
    c.Start(1, 3);
    c.Start(3, kEager);
    c.Start(3, kLarge);
    c.in.bytes = first;
    run();
    c.in.bytes = then;
    run();
    EXPECT_TRUE(c.fault.ok()) << c.fault.status;
    for (const PointToPointOperation& receive : c.operations) {
      EXPECT_EQ(receive.state, State::kDone) << limit;
    }
    const std::string state = c.Describe() + c.out.bytes;
    if (limit == kNoLimit) whole = state;
    EXPECT_EQ(state, whole) << limit;
  }
}

TEST(IncomingChannelTest, NothingIsReadAfterAFault) {
  Channel c;
  c.Arrive(Eager(2, 0, 0) + Eager(1, 0, 0));
  EXPECT_THAT(c.fault.status,
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("#1 was due")));
  const int reads = c.link.reads();
  c.Arrive(Eager(1, 0, 0));
  EXPECT_EQ(c.link.reads(), reads);
  EXPECT_EQ(c.channel.unexpected_bytes(), 0u);
}

// An end of the stream inside a message is named after the Recv that was just
// getting it.
TEST(IncomingChannelTest, TheEndIsToldOfTheRecvThatIsFurthest) {
  Channel c;
  c.Start(1, 3);
  c.Start(2, kEager);
  c.Arrive(Eager(1, 2, kEager).substr(0, kCost - 1));
  c.link.End("Connection timed out");
  c.channel.Read();
  EXPECT_FALSE(c.channel.CanRead());
  EXPECT_EQ(c.fault.kind, EngineFault::Kind::kPeerLost);
  EXPECT_EQ(c.fault.peer, 0);
  EXPECT_THAT(c.fault.status.message(),
              testing::AllOf(HasSubstr("Recv(u8 x 40 from rank 0, tag 2)"),
                             HasSubstr("Connection timed out")));
}

}  // namespace
}  // namespace shoal::internal
