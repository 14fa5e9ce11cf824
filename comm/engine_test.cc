// SPDX-License-Identifier: Apache-2.0
//
// Progress, step by step, and what a driver asks;
// engine_failure_test.cc has what may go wrong.

#include "shoal/comm/engine.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/engine_test_support.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
