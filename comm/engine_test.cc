// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/engine.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// A link whose other side is the test.
class FakeLink : public Link {
 public:
  LinkResult TryWrite(absl::Span<const struct iovec> pieces) override {
    ++writes;
    if (write_ended) return {LinkState::kEnded, 0};
    std::size_t moved = 0;
    for (const struct iovec& piece : pieces) {
      const std::size_t size = std::min(piece.iov_len, write_room - moved);
      written.append(static_cast<const char*>(piece.iov_base), size);
      moved += size;
    }
    if (write_room != kNoLimit) write_room -= moved;
    return {moved > 0 ? LinkState::kOk : LinkState::kWouldBlock, moved};
  }

  LinkResult TryRead(absl::Span<const struct iovec> pieces) override {
    ++reads;
    std::size_t moved = 0;
    for (const struct iovec& piece : pieces) {
      asked += piece.iov_len;
      const std::size_t size = std::min(piece.iov_len, to_read.size() - moved);
      std::memcpy(piece.iov_base, to_read.data() + moved, size);
      moved += size;
    }
    to_read.erase(0, moved);
    if (moved > 0) return {LinkState::kOk, moved};
    return {read_ended ? LinkState::kEnded : LinkState::kWouldBlock, 0};
  }

  void ShutdownWrite() override {}
  int descriptor() const override { return -1; }
  std::string end_reason() const override { return reason; }

  std::string written;
  std::string to_read;
  std::size_t write_room = kNoLimit;
  bool write_ended = false;
  bool read_ended = false;
  std::string reason;
  int writes = 0;
  int reads = 0;
  std::size_t asked = 0;  // bytes, in all reads
};

BufferRange Output(std::int64_t begin, std::int64_t count) {
  return {BufferId::kOutput, begin, count};
}

BufferRange Input(std::int64_t begin, std::int64_t count) {
  return {BufferId::kInput, begin, count};
}

Step MakeStep(StepKind kind, int peer, BufferRange target, BufferRange source) {
  Step step;
  step.kind = kind;
  step.peer = peer;
  step.target = target;
  step.source = source;
  return step;
}

Step Send(int peer, BufferRange range) {
  return MakeStep(StepKind::kSend, peer, range, {});
}

Step Receive(int peer, BufferRange range) {
  return MakeStep(StepKind::kReceive, peer, range, {});
}

Step ReceiveReduce(int peer, BufferRange target, BufferRange source) {
  return MakeStep(StepKind::kReceiveReduce, peer, target, source);
}

Step Copy(BufferRange target, BufferRange source) {
  return MakeStep(StepKind::kCopy, -1, target, source);
}

Step After(int index, Step step) {
  step.after = index;
  return step;
}

CallSignature SumOf(std::int64_t count) {
  return {.kind = CallKind::kAllReduce,
          .dtype = DType::kI32,
          .algorithm = Algorithm::kRecursiveDoubling,
          .count = count};
}

std::string Bytes(const std::vector<std::int32_t>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     4 * values.size());
}

std::string Header(const MessageHeader& header) {
  std::uint8_t bytes[kMessageHeaderSize];
  EncodeMessageHeader(header, bytes);
  return std::string(reinterpret_cast<const char*>(bytes), sizeof(bytes));
}

// An engine of rank 1 with the test as all of its peers.
class EngineTest : public testing::Test {
 protected:
  static constexpr int kRank = 1;

  explicit EngineTest(int world_size = 3, std::size_t slice_bytes = 16)
      : world_size_(world_size), peers_(world_size) {
    std::vector<Link*> links;
    for (int i = 0; i < world_size; ++i) {
      links.push_back(i == kRank ? nullptr : &peers_[i]);
    }
    engine_ = std::make_unique<Engine>(
        kRank, world_size, links, EngineOptions{.slice_bytes = slice_bytes});
  }

  Engine::OperationId Start(const CallSignature& signature,
                            std::vector<Step> steps, const void* input,
                            void* output) {
    auto schedule = std::make_shared<Schedule>();
    schedule->signature = signature;
    schedule->rank = kRank;
    schedule->world_size = world_size_;
    schedule->steps = std::move(steps);
    FinishSchedule(schedule.get());
    return engine_->Start(
        schedule, {.signature = signature, .input = input, .output = output});
  }

  // What `sender` would send as its `ordinal`th message to this rank.
  static std::string Message(int sender, const CallSignature& signature,
                             std::uint64_t sequence, int ordinal,
                             const std::vector<std::int32_t>& payload) {
    MessageHeader header;
    header.signature = signature;
    header.sequence = sequence;
    header.offset = ordinal;
    header.payload_bytes = 4 * payload.size();
    header.sender = sender;
    return Header(header) + Bytes(payload);
  }

  int world_size_;
  std::vector<FakeLink> peers_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, SmallExchangeIsOneWriteAndOneRead) {
  const std::int32_t input = 5;
  std::int32_t output = 0;
  const auto id =
      Start(SumOf(1),
            {Send(0, Input(0, 1)), ReceiveReduce(0, Output(0, 1), Input(0, 1))},
            &input, &output);
  EXPECT_EQ(id, 1u);
  EXPECT_EQ(peers_[0].writes, 0) << "Start makes no progress";
  peers_[0].to_read = Message(0, SumOf(1), 1, 0, {7});

  EXPECT_TRUE(engine_->Progress());
  EXPECT_TRUE(engine_->IsDone(id));
  SHOAL_EXPECT_OK(engine_->result(id));
  EXPECT_EQ(output, 12);
  EXPECT_EQ(peers_[0].written, Message(kRank, SumOf(1), 1, 0, {5}));
  EXPECT_EQ(peers_[0].writes, 1);
  EXPECT_EQ(peers_[0].reads, 1);
  EXPECT_EQ(peers_[0].asked, kMessageHeaderSize + 4);
  EXPECT_EQ(engine_->last_completed(), 1u);

  EXPECT_FALSE(engine_->Progress());
  EXPECT_EQ(peers_[0].reads, 1) << "an idle engine leaves its links alone";
}

// Exactly the message is read, although the next one is there already.
TEST_F(EngineTest, NeverReadsMoreThanTheMessage) {
  std::int32_t output[3] = {};
  Start(SumOf(2), {Receive(0, Output(0, 2))}, nullptr, output);
  const std::string next = Message(0, SumOf(1), 2, 0, {9});
  peers_[0].to_read = Message(0, SumOf(2), 1, 0, {7, 8}) + next;
  EXPECT_TRUE(engine_->Progress());
  EXPECT_TRUE(engine_->IsDone(1));
  EXPECT_EQ(peers_[0].to_read, next);
  EXPECT_EQ(peers_[0].reads, 1);
  EXPECT_THAT(output, ElementsAre(7, 8, 0));
}

// Cut at every byte: the same message, the same result.
TEST_F(EngineTest, AnyCutOfAMessageWillDo) {
  const std::string message = Message(0, SumOf(3), 1, 0, {1, -2, 3});
  for (std::size_t cut = 0; cut <= message.size(); ++cut) {
    for (const bool reduce : {false, true}) {
      FakeLink link;
      Engine engine(kRank, 2, {&link, nullptr}, {.slice_bytes = 8});
      const std::int32_t input[3] = {10, 20, 30};
      std::int32_t output[3] = {};
      auto schedule = std::make_shared<Schedule>();
      schedule->signature = SumOf(3);
      schedule->rank = kRank;
      schedule->world_size = 2;
      schedule->steps = {reduce ? ReceiveReduce(0, Output(0, 3), Input(0, 3))
                                : Receive(0, Output(0, 3)),
                         Send(0, Input(0, 3))};
      FinishSchedule(schedule.get());
      engine.Start(schedule,
                   {.signature = SumOf(3), .input = input, .output = output});
      link.to_read = message.substr(0, cut);
      link.write_room = cut;
      while (engine.Progress()) {
      }
      EXPECT_EQ(engine.IsDone(1), cut == message.size()) << cut;
      EXPECT_EQ(link.written.size(), cut);
      link.to_read = message.substr(cut);
      link.write_room = kNoLimit;
      while (engine.Progress()) {
      }
      ASSERT_TRUE(engine.IsDone(1)) << cut;
      SHOAL_EXPECT_OK(engine.result(1));
      if (reduce) {
        EXPECT_THAT(output, ElementsAre(11, 18, 33)) << cut;
      } else {
        EXPECT_THAT(output, ElementsAre(1, -2, 3)) << cut;
      }
      EXPECT_EQ(link.written, Message(kRank, SumOf(3), 1, 0, {10, 20, 30}));
    }
  }
}

// A chain: what is reduced goes on at once, as far as whole elements reach.
TEST_F(EngineTest, ForwardsSliceBySlice) {
  const std::int32_t input[6] = {10, 20, 30, 40, 50, 60};
  std::int32_t output[6] = {};
  Start(SumOf(6),
        {ReceiveReduce(0, Output(0, 6), Input(0, 6)), Send(2, Output(0, 6))},
        input, output);
  const std::string message = Message(0, SumOf(6), 1, 0, {1, 2, 3, 4, 5, 6});
  const std::string forwarded =
      Message(kRank, SumOf(6), 1, 0, {11, 22, 33, 44, 55, 66});

  EXPECT_FALSE(engine_->Progress());
  EXPECT_EQ(peers_[2].writes, 0) << "the header waits for the first element";

  // One element and half of the second.
  peers_[0].to_read = message.substr(0, kMessageHeaderSize + 6);
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(peers_[2].written, forwarded.substr(0, kMessageHeaderSize + 4));
  EXPECT_EQ(peers_[2].writes, 1) << "header and payload go in one write";

  // More than a slice of 16 bytes.
  peers_[0].to_read = message.substr(kMessageHeaderSize + 6);
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(peers_[2].written, forwarded.substr(0, kMessageHeaderSize + 20));
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(peers_[2].written, forwarded);
  EXPECT_TRUE(engine_->IsDone(1));
}

// An element is not overwritten before it has been sent.
TEST_F(EngineTest, ReceivesOnlyIntoWhatHasBeenSent) {
  std::int32_t buffer[4] = {1, 2, 3, 4};
  Start(SumOf(4), {Send(0, Output(0, 4)), Receive(2, Output(0, 4))}, buffer,
        buffer);
  const std::string message = Message(2, SumOf(4), 1, 0, {5, 6, 7, 8});
  peers_[2].to_read = message;
  peers_[0].write_room = 0;
  while (engine_->Progress()) {
  }
  EXPECT_THAT(buffer, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(peers_[2].to_read.size(), 16u) << "the header may be read";

  peers_[0].write_room = kMessageHeaderSize + 7;  // one element and a half
  while (engine_->Progress()) {
  }
  EXPECT_THAT(buffer, ElementsAre(5, 2, 3, 4));

  peers_[0].write_room = kNoLimit;
  while (engine_->Progress()) {
  }
  EXPECT_THAT(buffer, ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(peers_[0].written, Message(kRank, SumOf(4), 1, 0, {1, 2, 3, 4}));
  EXPECT_TRUE(engine_->IsDone(1));
}

// The same for a reduction, whose received bytes wait in the staging buffer.
TEST_F(EngineTest, ReducesOnlyIntoWhatHasBeenSent) {
  std::int32_t buffer[6] = {1, 2, 3, 4, 5, 6};
  Start(SumOf(6),
        {Send(0, Output(0, 6)), ReceiveReduce(2, Output(0, 6), Output(0, 6))},
        buffer, buffer);
  peers_[2].to_read = Message(2, SumOf(6), 1, 0, {10, 20, 30, 40, 50, 60});
  for (std::size_t i = 0; i < kMessageHeaderSize + 24; ++i) {
    peers_[0].write_room = 1;
    while (engine_->Progress()) {
    }
  }
  EXPECT_THAT(buffer, ElementsAre(11, 22, 33, 44, 55, 66));
  EXPECT_EQ(peers_[0].written,
            Message(kRank, SumOf(6), 1, 0, {1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(engine_->IsDone(1));
}

TEST_F(EngineTest, AnExplicitOrderIsKept) {
  const auto id = Start(
      {.kind = CallKind::kBarrier, .algorithm = Algorithm::kDissemination},
      {Send(0, Input(0, 0)), Receive(2, Output(0, 0)),
       After(1, Send(2, Input(0, 0))), After(2, Receive(0, Output(0, 0)))},
      nullptr, nullptr);
  const CallSignature barrier = {.kind = CallKind::kBarrier,
                                 .algorithm = Algorithm::kDissemination};
  peers_[2].write_room = 0;
  peers_[0].to_read = Message(0, barrier, 1, 0, {});
  while (engine_->Progress()) {
  }
  EXPECT_EQ(peers_[0].written, Message(kRank, barrier, 1, 0, {}));
  EXPECT_EQ(peers_[2].writes, 0);
  peers_[2].to_read = Message(2, barrier, 1, 0, {});
  while (engine_->Progress()) {
  }
  EXPECT_FALSE(engine_->IsDone(id)) << "the last receive is after the send";
  peers_[2].write_room = kNoLimit;
  while (engine_->Progress()) {
  }
  EXPECT_EQ(peers_[2].written, Message(kRank, barrier, 1, 0, {}));
  EXPECT_TRUE(engine_->IsDone(id));
}

TEST_F(EngineTest, CopiesAreDoneWithoutALink) {
  const std::int32_t input[3] = {1, 2, 3};
  std::int32_t output[3] = {};
  const auto empty = Start(SumOf(0), {}, nullptr, nullptr);
  EXPECT_TRUE(engine_->IsDone(empty)) << "there is nothing to do";
  const auto copy =
      Start(SumOf(3),
            {Copy(Output(0, 3), Input(0, 3)), Copy(Output(1, 0), Input(1, 0))},
            input, output);
  EXPECT_FALSE(engine_->IsDone(copy));
  EXPECT_TRUE(engine_->Progress());
  EXPECT_TRUE(engine_->IsDone(copy));
  EXPECT_THAT(output, ElementsAre(1, 2, 3));
  EXPECT_FALSE(engine_->Progress());
}

// A copy at the end follows the receive that it depends on.
TEST_F(EngineTest, ACopyFollowsAReceive) {
  std::int32_t buffer[4] = {};
  Start(SumOf(4),
        {Receive(0, Output(0, 2)), Copy(Output(2, 2), Output(0, 2)),
         Send(2, Output(2, 2))},
        buffer, buffer);
  peers_[0].to_read = Message(0, SumOf(4), 1, 0, {7, 8});
  EXPECT_TRUE(engine_->Progress());
  EXPECT_TRUE(engine_->IsDone(1)) << "received, copied and sent in one pass";
  EXPECT_THAT(buffer, ElementsAre(7, 8, 7, 8));
}

TEST_F(EngineTest, OperandsComeInTheOrderOfTheStep) {
  // Of two NaNs, the minimum is the first operand's.
  const std::uint32_t mine = 0x7FC00001;
  const std::uint32_t theirs = 0x7FC00002;
  CallSignature min = SumOf(1);
  min.dtype = DType::kF32;
  min.op = ReduceOp::kMin;
  for (const bool source_first : {true, false}) {
    std::uint32_t output = 0;
    Step step = ReceiveReduce(0, Output(0, 1), Input(0, 1));
    step.source_first = source_first;
    const auto id = Start(min, {step}, &mine, &output);
    peers_[0].to_read =
        Message(0, min, id, 0, {static_cast<std::int32_t>(theirs)});
    EXPECT_TRUE(engine_->Progress());
    EXPECT_EQ(output, source_first ? mine : theirs);
  }
}

TEST_F(EngineTest, TheStepThatCompletesDividesTheAverage) {
  CallSignature average = SumOf(2);
  average.op = ReduceOp::kAverage;
  const std::int32_t input[2] = {10, 20};
  std::int32_t output[2] = {};
  Step last = ReceiveReduce(2, Output(0, 2), Output(0, 2));
  last.completes = true;
  Start(average, {ReceiveReduce(0, Output(0, 2), Input(0, 2)), last}, input,
        output);
  peers_[0].to_read = Message(0, average, 1, 0, {1, 2});
  peers_[2].to_read = Message(2, average, 1, 0, {4, -61});
  while (engine_->Progress()) {
  }
  EXPECT_THAT(output, ElementsAre(5, -13));
}

TEST_F(EngineTest, SeveralOperationsKeepTheirOrderOnALink) {
  std::int32_t a = 1;
  std::int32_t b = 2;
  std::int32_t c = 0;
  Start(SumOf(1), {Receive(2, Output(0, 1)), Send(0, Output(0, 1))}, &a, &a);
  Start(SumOf(1), {Send(0, Output(0, 1))}, &b, &b);
  Start(SumOf(1), {Receive(2, Output(0, 1))}, &c, &c);
  while (engine_->Progress()) {
  }
  EXPECT_EQ(peers_[0].writes, 0) << "#2 waits behind #1";
  peers_[2].to_read =
      Message(2, SumOf(1), 1, 0, {5}) + Message(2, SumOf(1), 3, 0, {6});
  while (engine_->Progress()) {
  }
  EXPECT_EQ(peers_[0].written, Message(kRank, SumOf(1), 1, 0, {5}) +
                                   Message(kRank, SumOf(1), 2, 0, {2}));
  EXPECT_EQ(c, 6);
  for (int id : {3, 1, 2}) {
    EXPECT_TRUE(engine_->IsDone(id));
    engine_->Forget(id);
    EXPECT_THAT(engine_->result(id), StatusIs(absl::StatusCode::kInternal));
  }
  EXPECT_EQ(Start(SumOf(0), {}, nullptr, nullptr), 4u);
}

TEST_F(EngineTest, LastCompletedCountsWithoutGaps) {
  std::int32_t a = 0;
  std::int32_t b = 0;
  Start(SumOf(1), {Receive(0, Output(0, 1))}, &a, &a);
  Start(SumOf(1), {Receive(2, Output(0, 1))}, &b, &b);
  peers_[2].to_read = Message(2, SumOf(1), 2, 0, {6});
  EXPECT_TRUE(engine_->Progress());
  EXPECT_TRUE(engine_->IsDone(2));
  engine_->Forget(2);
  EXPECT_EQ(engine_->last_completed(), 0u);
  peers_[0].to_read = Message(0, SumOf(1), 1, 0, {5});
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->last_completed(), 2u);
}

// --- Failures ---------------------------------------------------------------

TEST_F(EngineTest, MismatchNamesBothCalls) {
  std::int32_t output[100] = {};
  const auto id =
      Start(SumOf(100), {Receive(2, Output(0, 100))}, nullptr, output);
  peers_[2].to_read = Message(2, SumOf(200), 1, 0, {1, 2, 3});
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kMismatch);
  EXPECT_EQ(engine_->fault().peer, 2);
  EXPECT_EQ(engine_->fault().status.message(),
            "rank 2 called AllReduce(i32 x 200, sum, recursive-doubling) #1 "
            "where rank 1 called AllReduce(i32 x 100, sum, "
            "recursive-doubling) #1; all ranks must make the same calls in the "
            "same order");
  ASSERT_TRUE(engine_->IsDone(id));
  EXPECT_THAT(engine_->result(id),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(engine_->Progress()) << "everything is over";
  EXPECT_EQ(engine_->last_completed(), 0u);
}

TEST_F(EngineTest, EveryFieldOfACallHasToAgree) {
  const CallSignature mine = SumOf(1);
  std::vector<CallSignature> others(6, mine);
  others[0].kind = CallKind::kAllGather;
  others[1].dtype = DType::kF32;
  others[2].op = ReduceOp::kMax;
  others[3].algorithm = Algorithm::kRing;
  others[4].count = 2;
  others[5].root = 1;
  for (const CallSignature& other : others) {
    FakeLink link;
    Engine engine(kRank, 2, {&link, nullptr}, {});
    std::int32_t output = -1;
    auto schedule = std::make_shared<Schedule>();
    schedule->signature = mine;
    schedule->rank = kRank;
    schedule->world_size = 2;
    schedule->steps = {ReceiveReduce(0, Output(0, 1), Output(0, 1))};
    FinishSchedule(schedule.get());
    engine.Start(schedule, {.signature = mine, .output = &output});
    link.to_read = Message(0, other, 1, 0, {5});
    EXPECT_TRUE(engine.Progress());
    EXPECT_EQ(engine.fault().kind, EngineFault::Kind::kMismatch);
    EXPECT_THAT(
        engine.result(1),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("rank 0 called " + other.ToString() + " #1"),
                       HasSubstr("rank 1 called " + mine.ToString() + " #1"))));
    EXPECT_EQ(output, -1) << "nothing was reduced";
  }
}

TEST_F(EngineTest, AnotherPlaceInTheOrderIsAMismatch) {
  std::int32_t output = 0;
  Start(SumOf(1), {Receive(2, Output(0, 1))}, nullptr, &output);
  peers_[2].to_read = Message(2, SumOf(1), 2, 0, {1});
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kMismatch);
  EXPECT_THAT(engine_->result(1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("recursive-doubling) #2 where rank 1"),
                             HasSubstr("recursive-doubling) #1;"))));
}

TEST_F(EngineTest, ZeroElementsAgainstSomeAreToldToo) {
  std::int32_t output = 0;
  Start(SumOf(0), {Receive(2, Output(0, 0))}, nullptr, nullptr);
  peers_[2].to_read = Message(2, SumOf(100), 1, 0, {1});
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kMismatch);
  EXPECT_EQ(output, 0);
}

TEST_F(EngineTest, WhatIsNoMessageIsCorrupt) {
  MessageHeader good;
  good.signature = SumOf(1);
  good.sequence = 1;
  good.payload_bytes = 4;
  good.sender = 0;
  std::vector<std::pair<std::string, std::string>> cases;
  cases.push_back({std::string(68, 'x'), "from rank 0: a message header is"});
  MessageHeader bad = good;
  bad.kind = MessageKind::kCredit;
  cases.push_back({Header(bad), "kind 6 on a link for collectives"});
  bad = good;
  bad.sender = 7;
  cases.push_back({Header(bad), "rank 7 is named as the sender"});
  bad = good;
  bad.offset = 1;
  cases.push_back({Header(bad), "message 1 of 4 bytes"});
  bad = good;
  bad.payload_bytes = 8;
  cases.push_back({Header(bad), "where message 0 of 4 bytes"});
  for (const auto& [bytes, text] : cases) {
    FakeLink link;
    Engine engine(kRank, 2, {&link, nullptr}, {});
    std::int32_t output = -1;
    auto schedule = std::make_shared<Schedule>();
    schedule->signature = SumOf(1);
    schedule->rank = kRank;
    schedule->world_size = 2;
    schedule->steps = {ReceiveReduce(0, Output(0, 1), Output(0, 1))};
    FinishSchedule(schedule.get());
    engine.Start(schedule, {.signature = SumOf(1), .output = &output});
    link.to_read = bytes + "1234";
    EXPECT_TRUE(engine.Progress());
    EXPECT_EQ(engine.fault().kind, EngineFault::Kind::kCorrupt) << text;
    EXPECT_EQ(engine.fault().peer, 0);
    EXPECT_THAT(engine.result(1),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text)));
    EXPECT_EQ(output, -1) << "nothing was reduced";
  }
}

TEST_F(EngineTest, AnEndThatIsNeededIsALostPeer) {
  std::int32_t output = 0;
  Start(SumOf(1), {Receive(2, Output(0, 1))}, nullptr, &output);
  peers_[2].to_read = Message(2, SumOf(1), 1, 0, {1}).substr(0, 67);
  peers_[2].read_ended = true;
  peers_[2].reason = "Connection reset by peer";
  while (engine_->Progress()) {
  }
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kPeerLost);
  EXPECT_EQ(engine_->fault().peer, 2);
  EXPECT_THAT(engine_->result(1),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 2 ended its connection to rank 1"),
                             HasSubstr("sum, recursive-doubling) #1"),
                             HasSubstr("(Connection reset by peer)"))));
}

TEST_F(EngineTest, AnEndOfWritingIsALostPeerToo) {
  std::int32_t output = 0;
  Start(SumOf(1), {Send(2, Output(0, 1))}, nullptr, &output);
  peers_[2].write_ended = true;
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kPeerLost);
  EXPECT_EQ(engine_->fault().peer, 2);
}

TEST_F(EngineTest, AnEndThatNoOperationNeedsIsNoFault) {
  std::int32_t output = 0;
  Start(SumOf(1), {Receive(2, Output(0, 1))}, nullptr, &output);
  peers_[0].read_ended = peers_[0].write_ended = true;
  peers_[2].to_read = Message(2, SumOf(1), 1, 0, {4});
  peers_[2].read_ended = true;
  while (engine_->Progress()) {
  }
  SHOAL_EXPECT_OK(engine_->result(1));
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kNone);
  Start(SumOf(1), {Receive(2, Output(0, 1))}, nullptr, &output);
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kPeerLost);
  EXPECT_THAT(engine_->result(2), StatusIs(absl::StatusCode::kUnavailable));
  SHOAL_EXPECT_OK(engine_->result(1));
}

TEST_F(EngineTest, TheFirstFailureStaysUnlessItIsAHint) {
  std::int32_t output = 0;
  Start(SumOf(1), {Receive(2, Output(0, 1))}, nullptr, &output);
  peers_[2].read_ended = true;
  EXPECT_TRUE(engine_->Progress());
  engine_->Fail(absl::UnavailableError("rank 0 died"));
  EXPECT_THAT(engine_->result(1),
              StatusIs(absl::StatusCode::kUnavailable, "rank 0 died"));
  engine_->Fail(absl::AbortedError("too late"));
  EXPECT_THAT(engine_->result(1),
              StatusIs(absl::StatusCode::kUnavailable, "rank 0 died"));
  const auto later = Start(SumOf(0), {}, nullptr, nullptr);
  ASSERT_TRUE(engine_->IsDone(later));
  EXPECT_THAT(engine_->result(later),
              StatusIs(absl::StatusCode::kUnavailable, "rank 0 died"));
  engine_->Forget(1);
  engine_->Forget(later);
  EXPECT_EQ(engine_->last_completed(), 0u);
}

TEST_F(EngineTest, NothingIsWrittenAfterAFailure) {
  std::int32_t output = 3;
  Start(SumOf(1), {Receive(2, Output(0, 1)), Send(0, Output(0, 1))}, nullptr,
        &output);
  engine_->Fail(absl::DeadlineExceededError("late"));
  peers_[2].to_read = Message(2, SumOf(1), 1, 0, {4});
  EXPECT_FALSE(engine_->Progress());
  EXPECT_EQ(output, 3);
  EXPECT_EQ(peers_[2].reads, 0);
  std::vector<LinkInterest> interest;
  engine_->AppendInterest(&interest);
  EXPECT_THAT(interest, IsEmpty());
  EXPECT_THAT(engine_->AwaitedPeers(), IsEmpty());
}

TEST_F(EngineTest, AForeignScheduleIsRefused) {
  auto schedule = std::make_shared<Schedule>();
  schedule->rank = 0;
  schedule->world_size = 3;
  const auto id = engine_->Start(schedule, {});
  ASSERT_TRUE(engine_->IsDone(id));
  EXPECT_THAT(engine_->result(id),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("rank 0 of 3")));
}

TEST_F(EngineTest, AScheduleThatNeedsAMissingLinkIsRefused) {
  const auto id = Start(SumOf(1), {Send(kRank, Input(0, 1))}, nullptr, nullptr);
  ASSERT_TRUE(engine_->IsDone(id));
  EXPECT_THAT(engine_->result(id), StatusIs(absl::StatusCode::kInternal,
                                            HasSubstr("no link to rank 1")));
}

// Two ranks that both believe to be the root, with more to send than the link
// holds: neither would ever read.
TEST_F(EngineTest, APeerThatSendsInsteadOfReceivingIsFoundOut) {
  std::int32_t output[4] = {};
  Start(SumOf(4), {Send(2, Output(0, 4))}, nullptr, output);
  peers_[2].write_room = 70;
  CallSignature other = SumOf(4);
  other.root = 2;
  peers_[2].to_read = Message(2, other, 1, 0, {1, 2, 3, 4});
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kMismatch);
  EXPECT_EQ(engine_->fault().peer, 2);
  EXPECT_EQ(peers_[2].to_read.size(), 16u) << "no payload is read";
}

// A peer that is ahead is in order; its header is read once and kept.
TEST_F(EngineTest, AHeaderReadAheadIsKeptForItsOperation) {
  std::int32_t output[4] = {1, 2, 3, 4};
  Start(SumOf(4), {Send(2, Output(0, 4))}, nullptr, output);
  peers_[2].write_room = 70;
  peers_[2].to_read = Message(2, SumOf(1), 2, 0, {7});
  std::vector<LinkInterest> interest;
  engine_->AppendInterest(&interest);
  ASSERT_EQ(interest.size(), 1u);
  EXPECT_TRUE(interest[0].read && interest[0].write);
  while (engine_->Progress()) {
  }
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kNone);
  EXPECT_EQ(peers_[2].to_read.size(), 4u);
  interest.clear();
  engine_->AppendInterest(&interest);
  ASSERT_EQ(interest.size(), 1u);
  EXPECT_FALSE(interest[0].read) << "or a parked thread would wake for ever";

  peers_[2].write_room = kNoLimit;
  std::int32_t next = 0;
  Start(SumOf(1), {Receive(2, Output(0, 1))}, nullptr, &next);
  while (engine_->Progress()) {
  }
  EXPECT_TRUE(engine_->IsDone(1));
  EXPECT_TRUE(engine_->IsDone(2));
  EXPECT_EQ(next, 7);
}

TEST_F(EngineTest, AnEndIsSeenWhileStuckInSending) {
  std::int32_t output[4] = {};
  Start(SumOf(4), {Send(2, Output(0, 4))}, nullptr, output);
  peers_[2].write_room = 70;
  peers_[2].read_ended = true;
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kPeerLost);
}

// --- What a driver asks -----------------------------------------------------

TEST_F(EngineTest, InterestIsWhatProgressDependsOn) {
  std::int32_t buffer[2] = {1, 2};
  std::int32_t later = 0;
  std::vector<LinkInterest> interest;
  engine_->AppendInterest(&interest);
  EXPECT_THAT(interest, IsEmpty());
  EXPECT_THAT(engine_->AwaitedPeers(), IsEmpty());

  // Cannot write to 2 before something has come from 0.
  Start(SumOf(2), {Receive(0, Output(0, 2)), Send(2, Output(0, 2))}, buffer,
        buffer);
  Start(SumOf(1), {Receive(2, Output(0, 1))}, &later, &later);
  engine_->AppendInterest(&interest);
  ASSERT_EQ(interest.size(), 2u);
  EXPECT_EQ(interest[0].link, &peers_[0]);
  EXPECT_EQ(interest[0].peer, 0);
  EXPECT_TRUE(interest[0].read && !interest[0].write);
  EXPECT_EQ(interest[1].peer, 2);
  EXPECT_TRUE(interest[1].read && !interest[1].write);
  EXPECT_THAT(engine_->AwaitedPeers(), ElementsAre(0))
      << "of the oldest operation";

  peers_[0].to_read = Message(0, SumOf(2), 1, 0, {3, 4});
  peers_[2].write_room = 0;
  while (engine_->Progress()) {
  }
  interest.clear();
  engine_->AppendInterest(&interest);
  ASSERT_EQ(interest.size(), 1u);
  EXPECT_EQ(interest[0].peer, 2);
  EXPECT_TRUE(interest[0].read && interest[0].write);
  EXPECT_THAT(engine_->AwaitedPeers(), ElementsAre(2));
}

TEST_F(EngineTest, ACloneGoesItsOwnWayFromTheSameState) {
  std::int32_t output[2] = {};
  Start(SumOf(2), {Receive(0, Output(0, 2)), Send(2, Output(0, 2))}, nullptr,
        output);
  const std::string message = Message(0, SumOf(2), 1, 0, {3, 4});
  peers_[0].to_read = message.substr(0, 66);
  while (engine_->Progress()) {
  }
  const std::unique_ptr<Engine> clone = engine_->Clone();
  std::string state;
  std::string state_of_clone;
  engine_->AppendState(&state);
  clone->AppendState(&state_of_clone);
  EXPECT_EQ(state, state_of_clone);

  peers_[0].to_read = message.substr(66);
  while (engine_->Progress()) {
  }
  EXPECT_TRUE(engine_->IsDone(1));
  EXPECT_FALSE(clone->IsDone(1));
  state.clear();
  engine_->AppendState(&state);
  EXPECT_NE(state, state_of_clone);

  peers_[0].to_read = message.substr(66);
  while (clone->Progress()) {
  }
  EXPECT_TRUE(clone->IsDone(1));
  EXPECT_EQ(peers_[2].written.size(), 2 * (kMessageHeaderSize + 8));
}

}  // namespace
}  // namespace shoal::internal
