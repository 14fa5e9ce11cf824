// SPDX-License-Identifier: Apache-2.0
//
// Against the closed forms of the literature.

#include "shoal/comm/cost_model.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;

// No two of them are commensurable enough to be mistaken for each other.
constexpr LinkCost kCost = {3.1, 0.07, 0.011};
constexpr double kAlpha = kCost.latency_seconds;
constexpr double kBeta = kCost.seconds_per_byte;
constexpr double kGamma = kCost.reduce_seconds_per_byte;

double Price(CallKind kind, Algorithm algorithm, std::int64_t count,
             int world_size) {
  CallSignature signature;
  signature.kind = kind;
  signature.algorithm = algorithm;
  signature.dtype = DType::kI32;
  signature.count = count;
  const auto price = PriceCollective(signature, world_size, kCost);
  if (!price.ok()) {
    ADD_FAILURE() << price.status();
    return -1;
  }
  return *price;
}

int CeilLog2(int n) {
  int log = 0;
  while ((1 << log) < n) ++log;
  return log;
}

void ExpectAlmost(double actual, double expected, int world_size) {
  EXPECT_NEAR(actual, expected, 1e-9 * (1 + expected))
      << "world " << world_size;
}

TEST(CostModelTest, Ring) {
  for (int n = 1; n <= 64; ++n) {
    const std::int64_t part = 5;  // elements, so that the parts are equal
    const double part_bytes = 4.0 * part;
    const double hop = kAlpha + part_bytes * kBeta;
    const double reduction = part_bytes * kGamma;
    ExpectAlmost(Price(CallKind::kAllReduce, Algorithm::kRing, part * n, n),
                 2 * (n - 1) * hop + (n - 1) * reduction, n);
    ExpectAlmost(Price(CallKind::kReduceScatter, Algorithm::kRing, part, n),
                 (n - 1) * (hop + reduction), n);
    ExpectAlmost(Price(CallKind::kAllGather, Algorithm::kRing, part, n),
                 (n - 1) * hop, n);
  }
}

TEST(CostModelTest, Direct) {
  for (int n = 2; n <= 64; ++n) {
    const std::int64_t part = 5;
    const double part_bytes = 4.0 * part;
    const double hop = kAlpha + part_bytes * kBeta;
    const double fold = (n - 1) * part_bytes * kGamma;
    ExpectAlmost(Price(CallKind::kAllReduce, Algorithm::kDirect, part * n, n),
                 2 * (n - 1) * hop + fold, n);
    ExpectAlmost(Price(CallKind::kAllReduce, Algorithm::kOneShot, part, n),
                 (n - 1) * hop + fold, n);
    ExpectAlmost(Price(CallKind::kAllGather, Algorithm::kDirect, part, n),
                 (n - 1) * hop, n);
    ExpectAlmost(Price(CallKind::kAllToAll, Algorithm::kPairwise, part, n),
                 (n - 1) * hop, n);
  }
}

TEST(CostModelTest, HalvingDoubling) {
  for (int n = 2; n <= 64; n *= 2) {
    const double bytes = 4.0 * n;  // parts of one element at the end
    ExpectAlmost(
        Price(CallKind::kAllReduce, Algorithm::kHalvingDoubling, n, n),
        2 * CeilLog2(n) * kAlpha + bytes * (n - 1) / n * (2 * kBeta + kGamma),
        n);
  }
}

TEST(CostModelTest, TreesAndChains) {
  const double bytes = 4.0 * 9;
  const double hop = kAlpha + bytes * kBeta;
  for (int n = 2; n <= 64; n *= 2) {
    ExpectAlmost(Price(CallKind::kReduce, Algorithm::kTree, 9, n),
                 CeilLog2(n) * (hop + bytes * kGamma), n);
    ExpectAlmost(Price(CallKind::kReduce, Algorithm::kChain, 9, n),
                 (n - 1) * (hop + bytes * kGamma), n);
    ExpectAlmost(Price(CallKind::kBroadcast, Algorithm::kChain, 9, n),
                 (n - 1) * hop, n);
  }
}

TEST(CostModelTest, RecursiveDoubling) {
  const double bytes = 4.0 * 9;
  for (int n = 2; n <= 64; ++n) {
    const bool is_power = (n & (n - 1)) == 0;
    const int exchanges = is_power ? CeilLog2(n) : CeilLog2(n) - 1;
    // Others take a hop before and one after.
    const int hops = exchanges + (is_power ? 0 : 2);
    const int reductions = exchanges + (is_power ? 0 : 1);
    ExpectAlmost(
        Price(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 9, n),
        hops * (kAlpha + bytes * kBeta) + reductions * bytes * kGamma, n);
  }
}

TEST(CostModelTest, BinomialTreeAndDissemination) {
  for (int n = 1; n <= 64; ++n) {
    ExpectAlmost(Price(CallKind::kBroadcast, Algorithm::kBinomialTree, 9, n),
                 CeilLog2(n) * (kAlpha + 4.0 * 9 * kBeta), n);
    ExpectAlmost(Price(CallKind::kBarrier, Algorithm::kDissemination, 0, n),
                 CeilLog2(n) * kAlpha, n);
  }
}

// The longest chain decides where parts are unequal: 7 elements over 3 ranks
// are 3 + 2 + 2, and in each of the four rounds some rank passes on the 3.
TEST(CostModelTest, UnequalPartsCostAsTheLongest) {
  const double hop = kAlpha + 4.0 * 3 * kBeta;
  const double price = Price(CallKind::kAllReduce, Algorithm::kRing, 7, 3);
  EXPECT_LE(price, 4 * hop + 2 * 4.0 * 3 * kGamma + 1e-9);
  EXPECT_GT(price, Price(CallKind::kAllReduce, Algorithm::kRing, 6, 3));
}

TEST(CostModelTest, LargeWorlds) {
  const double hop = kAlpha + 4.0 * kBeta;
  ExpectAlmost(Price(CallKind::kAllReduce, Algorithm::kRing, 300, 300),
               2 * 299 * hop + 299 * 4.0 * kGamma, 300);
}

Step EmptyMessage(StepKind kind, int peer) {
  Step step;
  step.kind = kind;
  step.peer = peer;
  return step;
}

std::vector<Schedule> EmptySchedules(int world_size) {
  std::vector<Schedule> schedules(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    schedules[rank].rank = rank;
    schedules[rank].world_size = world_size;
  }
  return schedules;
}

TEST(CostModelTest, ARankReceivesFromOneAtATime) {
  std::vector<Schedule> schedules = EmptySchedules(3);
  schedules[0].steps = {EmptyMessage(StepKind::kReceive, 1),
                        EmptyMessage(StepKind::kReceive, 2)};
  schedules[1].steps = {EmptyMessage(StepKind::kSend, 0)};
  schedules[2].steps = {EmptyMessage(StepKind::kSend, 0)};
  SHOAL_ASSERT_OK_AND_ASSIGN(const double price,
                             PriceSchedules(schedules, kCost));
  EXPECT_DOUBLE_EQ(price, 2 * kAlpha);
}

TEST(CostModelTest, AStepWaitsForTheOneThatItComesAfter) {
  std::vector<Schedule> schedules = EmptySchedules(2);
  schedules[0].steps = {EmptyMessage(StepKind::kReceive, 1),
                        EmptyMessage(StepKind::kSend, 1)};
  schedules[1].steps = {EmptyMessage(StepKind::kSend, 0),
                        EmptyMessage(StepKind::kReceive, 0)};
  SHOAL_ASSERT_OK_AND_ASSIGN(double price, PriceSchedules(schedules, kCost));
  EXPECT_DOUBLE_EQ(price, kAlpha);
  schedules[0].steps[1].after = 0;
  SHOAL_ASSERT_OK_AND_ASSIGN(price, PriceSchedules(schedules, kCost));
  EXPECT_DOUBLE_EQ(price, 2 * kAlpha);
}

TEST(CostModelTest, SchedulesThatNeverEndHaveNoPrice) {
  CallSignature signature;
  signature.kind = CallKind::kBroadcast;
  signature.algorithm = Algorithm::kBinomialTree;
  signature.count = 4;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 2; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(schedules.emplace_back(),
                               BuildSchedule(signature, rank, 2, true));
  }
  SHOAL_EXPECT_OK(PriceSchedules(schedules, kCost).status());
  schedules[0].steps.clear();
  EXPECT_THAT(PriceSchedules(schedules, kCost),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 of Broadcast")));
}

TEST(CostModelTest, ImpossibleCallsHaveNoPrice) {
  CallSignature signature;
  signature.kind = CallKind::kBroadcast;
  signature.algorithm = Algorithm::kRing;
  EXPECT_THAT(PriceCollective(signature, 2, kCost),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace shoal::internal
