// SPDX-License-Identifier: Apache-2.0
//
// What an engine makes of calls that do not fit, of bytes that are no message,
// and of links that end.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/engine_test_support.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using EngineFailureTest = EngineTest;

TEST_F(EngineFailureTest, MismatchNamesBothCalls) {
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

TEST_F(EngineFailureTest, EveryFieldOfACallHasToAgree) {
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

TEST_F(EngineFailureTest, AnotherPlaceInTheOrderIsAMismatch) {
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

TEST_F(EngineFailureTest, ZeroElementsAgainstSomeAreToldToo) {
  std::int32_t output = 0;
  Start(SumOf(0), {Receive(2, Output(0, 0))}, nullptr, nullptr);
  peers_[2].to_read = Message(2, SumOf(100), 1, 0, {1});
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kMismatch);
  EXPECT_EQ(output, 0);
}

TEST_F(EngineFailureTest, WhatIsNoMessageIsCorrupt) {
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

TEST_F(EngineFailureTest, AnEndThatIsNeededIsALostPeer) {
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

TEST_F(EngineFailureTest, AnEndOfWritingIsALostPeerToo) {
  std::int32_t output = 0;
  Start(SumOf(1), {Send(2, Output(0, 1))}, nullptr, &output);
  peers_[2].write_ended = true;
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kPeerLost);
  EXPECT_EQ(engine_->fault().peer, 2);
}

TEST_F(EngineFailureTest, AnEndThatNoOperationNeedsIsNoFault) {
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

TEST_F(EngineFailureTest, TheFirstFailureStaysUnlessItIsAHint) {
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

TEST_F(EngineFailureTest, NothingIsWrittenAfterAFailure) {
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

TEST_F(EngineFailureTest, AForeignScheduleIsRefused) {
  auto schedule = std::make_shared<Schedule>();
  schedule->rank = 0;
  schedule->world_size = 3;
  const auto id = engine_->Start(schedule, {});
  ASSERT_TRUE(engine_->IsDone(id));
  EXPECT_THAT(engine_->result(id),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("rank 0 of 3")));
}

TEST_F(EngineFailureTest, AScheduleThatNeedsAMissingLinkIsRefused) {
  const auto id = Start(SumOf(1), {Send(kRank, Input(0, 1))}, nullptr, nullptr);
  ASSERT_TRUE(engine_->IsDone(id));
  EXPECT_THAT(engine_->result(id), StatusIs(absl::StatusCode::kInternal,
                                            HasSubstr("no link to rank 1")));
}

// Two ranks that both believe to be the root, with more to send than the link
// holds: neither would ever read.
TEST_F(EngineFailureTest, APeerThatSendsInsteadOfReceivingIsFoundOut) {
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
TEST_F(EngineFailureTest, AHeaderReadAheadIsKeptForItsOperation) {
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

TEST_F(EngineFailureTest, AnEndIsSeenWhileStuckInSending) {
  std::int32_t output[4] = {};
  Start(SumOf(4), {Send(2, Output(0, 4))}, nullptr, output);
  peers_[2].write_room = 70;
  peers_[2].read_ended = true;
  EXPECT_TRUE(engine_->Progress());
  EXPECT_EQ(engine_->fault().kind, EngineFault::Kind::kPeerLost);
}

}  // namespace
}  // namespace shoal::internal
