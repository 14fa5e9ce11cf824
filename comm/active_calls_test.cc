// SPDX-License-Identifier: Apache-2.0
//
// The calls of two ranks over links in memory, driven by hand.

#include "shoal/comm/active_calls.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/comm_stats.h"
#include "shoal/comm/driven_call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/link.h"
#include "shoal/comm/memory_link.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule_cache.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Clock = ActiveCalls::Clock;

// Nobody can be reached.
class NoLinks final : public PointToPointLinks {
 public:
  void SetWaker(std::shared_ptr<Waker> /*waker*/) override {}
  std::unique_ptr<LinkOpening> OpenOutgoing(int /*peer*/) override {
    return std::make_unique<NoOpening>();
  }
  bool HasIncoming() const override { return false; }
  std::vector<std::pair<int, std::unique_ptr<Link>>> TakeIncoming() override {
    return {};
  }

 private:
  class NoOpening final : public LinkOpening {
   public:
    absl::StatusOr<std::unique_ptr<Link>> TryFinish() override {
      return absl::UnavailableError("no way");
    }
    int descriptor() const override { return -1; }
  };
};

// With two ranks, each with one float.
class ActiveCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    SHOAL_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Waker> waker,
                               Waker::Create());
    auto [a, b] = MakeMemoryLinkPair();
    std::array<std::unique_ptr<Link>, 2> ends = {std::move(a), std::move(b)};
    for (int rank = 0; rank < 2; ++rank) {
      ActiveCalls::Options options;
      options.rank = rank;
      options.world_size = 2;
      options.name = " in communicator 7";
      options.links.resize(2);
      options.links[1 - rank] = std::move(ends[rank]);
      options.point_to_point_links = std::make_unique<NoLinks>();
      options.waker = waker;
      ranks_[rank] = std::make_unique<ActiveCalls>(std::move(options));
      values_[rank] = static_cast<float>(rank + 1);
    }
  }

  // The sum of the two, as call number 1 of `rank`.
  void BeginSum(int rank) {
    DrivenCall& call = calls_[rank];
    DrivenCall::Part& part = call.parts.emplace_back();
    part.call.signature.kind = CallKind::kAllReduce;
    part.call.signature.dtype = DType::kF32;
    part.call.signature.op = ReduceOp::kSum;
    part.call.signature.algorithm = Algorithm::kRecursiveDoubling;
    part.call.signature.count = 1;
    part.call.input = part.call.output = &values_[rank];
    ScheduleCache schedules(rank, 2);
    SHOAL_ASSERT_OK_AND_ASSIGN(part.schedule, schedules.Get(part.call));
    part.sequence = 1;
    call.timeout = absl::Seconds(10);
    call.begin = Clock::now();
    ranks_[rank]->Begin(&call);
  }

  void BeginSend(int rank) {
    DrivenCall& call = calls_[rank];
    DrivenCall::Part& part = call.parts.emplace_back();
    part.call.signature.kind = CallKind::kSend;
    part.call.signature.count = 1;
    part.call.input = &values_[rank];
    part.call.peer = 1 - rank;
    part.sequence = 1;
    call.timeout = absl::Seconds(10);
    ranks_[rank]->Begin(&call);
  }

  std::vector<DrivenCall*> TakeDone(int rank) {
    std::vector<DrivenCall*> done;
    ranks_[rank]->TakeDone(&done);
    return done;
  }

  float values_[2];
  DrivenCall calls_[2];
  std::unique_ptr<ActiveCalls> ranks_[2];
};

TEST_F(ActiveCallsTest, ACallEndsOnceAndIsNoted) {
  BeginSum(0);
  EXPECT_FALSE(ranks_[0]->empty());
  EXPECT_FALSE(ranks_[0]->has_messages());
  ranks_[0]->Progress(/*with_messages=*/true);
  EXPECT_THAT(TakeDone(0), IsEmpty());
  EXPECT_EQ(ranks_[0]->last_completed(), 0u);
  BeginSum(1);
  ranks_[1]->Progress(/*with_messages=*/true);
  EXPECT_TRUE(ranks_[0]->Progress(/*with_messages=*/true));
  EXPECT_FALSE(ranks_[0]->Progress(/*with_messages=*/true));
  EXPECT_EQ(values_[0], 3);
  EXPECT_THAT(TakeDone(0), ElementsAre(&calls_[0]));
  EXPECT_TRUE(calls_[0].settled);
  EXPECT_TRUE(calls_[0].succeeded);
  EXPECT_FALSE(calls_[0].done) << "that is for the driver to say";
  EXPECT_THAT(TakeDone(0), IsEmpty());
  EXPECT_TRUE(ranks_[0]->empty());
  EXPECT_EQ(ranks_[0]->last_completed(), 1u);
  const OperationStats stats =
      ranks_[0]->log().stats().by_kind.at(CallKind::kAllReduce);
  EXPECT_EQ(stats.succeeded, 1);
  EXPECT_EQ(stats.bytes, 4);
}

TEST_F(ActiveCallsTest, AFaultHoldsCallsBackUntilItIsKnownWhy) {
  BeginSum(0);
  ranks_[1]->Clear();  // the peer's end of the link
  ranks_[0]->Progress(/*with_messages=*/true);
  ASSERT_TRUE(ranks_[0]->HasFault());
  const ActiveCalls::Fault fault = ranks_[0]->fault();
  EXPECT_EQ(fault.peer, 1);
  EXPECT_TRUE(fault.lost);
  EXPECT_EQ(fault.operation,
            "AllReduce(f32 x 1, sum, recursive-doubling) #1 in communicator 7");
  EXPECT_THAT(TakeDone(0), IsEmpty());
  ranks_[0]->Fail(absl::UnavailableError("rank 1 is dead"));
  EXPECT_FALSE(ranks_[0]->HasFault());
  EXPECT_THAT(TakeDone(0), ElementsAre(&calls_[0]));
  EXPECT_FALSE(calls_[0].succeeded);
  EXPECT_EQ(ranks_[0]->log().stats().Total().failed, 1);
}

TEST_F(ActiveCallsTest, APeerThatCannotBeReachedIsLostToItsMessage) {
  BeginSend(0);
  EXPECT_TRUE(ranks_[0]->has_messages());
  ASSERT_TRUE(ranks_[0]->HasFault());
  const ActiveCalls::Fault fault = ranks_[0]->fault();
  EXPECT_EQ(fault.peer, 1);
  EXPECT_TRUE(fault.lost);
  EXPECT_EQ(fault.operation,
            "Send(u8 x 1 to rank 1, tag 0) #1 in communicator 7 (no way)");
}

TEST_F(ActiveCallsTest, ACallIsLateAfterItsTimeOut) {
  BeginSum(0);
  const Clock::time_point start(std::chrono::hours(1));
  EXPECT_EQ(ranks_[0]->FindLate(start), nullptr) << "no deadline yet";
  const Clock::time_point deadline = start + std::chrono::seconds(10);
  EXPECT_EQ(ranks_[0]->CheckTime(start), deadline);
  EXPECT_EQ(ranks_[0]->CheckTime(start + std::chrono::seconds(1)), deadline);
  EXPECT_EQ(ranks_[0]->FindLate(deadline - std::chrono::nanoseconds(1)),
            nullptr);
  EXPECT_EQ(ranks_[0]->FindLate(deadline), &calls_[0]);

  const OperationReport report = ranks_[0]->ReportOn(calls_[0]);
  EXPECT_EQ(report.entered, 1u);
  EXPECT_EQ(report.last_completed, 0u);
  EXPECT_TRUE(report.in_operation);
  EXPECT_TRUE(report.collective);
  EXPECT_THAT(report.operation, HasSubstr("#1 in communicator 7"));
  EXPECT_THAT(report.awaiting, ElementsAre(1));
}

TEST_F(ActiveCallsTest, AfterAFailureCallsEndAtOnce) {
  ranks_[0]->Fail(absl::AbortedError("enough"));
  BeginSum(0);
  EXPECT_THAT(TakeDone(0), ElementsAre(&calls_[0]));
  EXPECT_FALSE(calls_[0].succeeded);
}

}  // namespace
}  // namespace shoal::internal
