// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/schedule_cache.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

Call AllReduceCall(std::int64_t count, const void* input, void* output) {
  Call call;
  call.signature.kind = CallKind::kAllReduce;
  call.signature.dtype = DType::kF32;
  call.signature.algorithm = Algorithm::kRing;
  call.signature.count = count;
  call.input = input;
  call.output = output;
  return call;
}

TEST(ScheduleCacheTest, ReturnsTheSameScheduleForTheSameCall) {
  ScheduleCache cache(/*rank=*/1, /*world_size=*/3);
  std::vector<float> input(6), output(6);
  const Call call = AllReduceCall(6, input.data(), output.data());
  SHOAL_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const Schedule> first,
                             cache.Get(call));
  SHOAL_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const Schedule> second,
                             cache.Get(call));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first->signature, call.signature);
}

TEST(ScheduleCacheTest, TellsCallsApart) {
  ScheduleCache cache(/*rank=*/1, /*world_size=*/3);
  std::vector<float> input(6), output(6);
  Call call = AllReduceCall(6, input.data(), output.data());
  SHOAL_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const Schedule> first,
                             cache.Get(call));
  std::vector<Call> others(5, call);
  others[0].input = output.data();  // in place
  others[1].signature.count = 5;
  others[2].signature.op = ReduceOp::kMax;
  others[3].signature.dtype = DType::kI32;
  others[4].signature.algorithm = Algorithm::kRecursiveDoubling;
  for (const Call& other : others) {
    SHOAL_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const Schedule> schedule,
                               cache.Get(other));
    EXPECT_NE(schedule, first);
    EXPECT_EQ(schedule->signature, other.signature);
  }
  EXPECT_EQ(cache.size(), 6u);
}

TEST(ScheduleCacheTest, KnowsInPlaceByTheRanksPart) {
  ScheduleCache cache(/*rank=*/1, /*world_size=*/3);
  std::vector<float> whole(6), part(2);
  Call call = AllReduceCall(2, part.data(), whole.data());
  call.signature.kind = CallKind::kAllGather;
  SHOAL_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const Schedule> apart,
                             cache.Get(call));
  call.input = whole.data() + 2;
  SHOAL_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const Schedule> in_place,
                             cache.Get(call));
  EXPECT_NE(apart, in_place);
}

TEST(ScheduleCacheTest, StaysBounded) {
  ScheduleCache cache(/*rank=*/0, /*world_size=*/2);
  float value = 0;
  for (std::int64_t count = 0; count < 1000; ++count) {
    SHOAL_ASSERT_OK(cache.Get(AllReduceCall(count, &value, &value)));
    EXPECT_LE(cache.size(), ScheduleCache::kCapacity);
  }
}

TEST(ScheduleCacheTest, PassesErrorsOn) {
  ScheduleCache cache(/*rank=*/0, /*world_size=*/2);
  Call call = AllReduceCall(6, nullptr, nullptr);
  call.signature.algorithm = Algorithm::kBinomialTree;
  EXPECT_THAT(cache.Get(call), StatusIs(absl::StatusCode::kInvalidArgument,
                                        testing::HasSubstr("AllReduce")));
}

}  // namespace
}  // namespace shoal::internal
