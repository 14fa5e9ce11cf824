// SPDX-License-Identifier: Apache-2.0
//
// Proves every schedule: each collective by each of its algorithms, in place
// and out of place, for every world of 1 to 64 ranks, awkward counts, every
// root, and links of 1, 3 and unlimited items. schedule_verifier.h says what is
// proved.

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/schedule_verifier.h"

namespace shoal::internal {
namespace {

struct Collective {
  CallKind kind;
  Algorithm algorithm;
};

std::vector<Collective> AllCollectives() {
  std::vector<Collective> all;
  for (const CallKind kind :
       {CallKind::kAllReduce, CallKind::kReduceScatter, CallKind::kAllGather,
        CallKind::kBroadcast, CallKind::kBarrier}) {
    for (const Algorithm algorithm : AlgorithmsOf(kind)) {
      all.push_back({kind, algorithm});
    }
  }
  return all;
}

std::vector<std::int64_t> Counts(CallKind kind, int world_size) {
  if (kind == CallKind::kBarrier) return {0};
  const std::set<std::int64_t> counts = {0,
                                         1,
                                         2,
                                         7,
                                         world_size - 1,
                                         world_size,
                                         world_size + 1,
                                         2 * world_size + 3};
  return {counts.begin(), counts.end()};
}

// What can stall on a small link stalls with a few elements as well; long
// vectors in large worlds would only take long.
std::vector<std::int64_t> Capacities(std::int64_t count, int world_size) {
  if (world_size > 16 && count > 7) return {kUnlimitedLink};
  return {1, 3, kUnlimitedLink};
}

class ScheduleProofTest
    : public testing::TestWithParam<std::tuple<Collective, int>> {};

TEST_P(ScheduleProofTest, Holds) {
  const auto [collective, world_size] = GetParam();
  if (TriesFewerCases() && world_size > 17) {
    GTEST_SKIP() << "one of the cases left out";
  }
  const bool has_root = collective.kind == CallKind::kBroadcast;
  for (const std::int64_t count : Counts(collective.kind, world_size)) {
    for (int root = 0; root < (has_root ? world_size : 1); ++root) {
      CallSignature signature;
      signature.kind = collective.kind;
      signature.algorithm = collective.algorithm;
      signature.count = count;
      signature.root = root;
      for (const bool in_place : {false, true}) {
        SHOAL_ASSERT_OK(VerifyCollective(signature, world_size, in_place,
                                         Capacities(count, world_size)))
            << signature.ToString() << (in_place ? " in place" : "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , ScheduleProofTest,
    testing::Combine(testing::ValuesIn(AllCollectives()),
                     testing::Range(1, 65)),
    [](const testing::TestParamInfo<ScheduleProofTest::ParamType>& info) {
      const Collective collective = std::get<0>(info.param);
      std::string name(CallKindName(collective.kind));
      if (collective.algorithm == Algorithm::kRecursiveDoubling) {
        name += "RecursiveDoubling";
      }
      return name + "World" + std::to_string(std::get<1>(info.param));
    });

// Whether a rank works in place is its own affair.
TEST(ScheduleProofOfMixedRanksTest, SomeInPlaceAndSomeNot) {
  for (const Collective& collective : AllCollectives()) {
    for (int world_size = 2; world_size <= 9; ++world_size) {
      CallSignature signature;
      signature.kind = collective.kind;
      signature.algorithm = collective.algorithm;
      signature.count =
          collective.kind == CallKind::kBarrier ? 0 : world_size + 2;
      std::vector<Schedule> schedules;
      std::vector<bool> in_place;
      for (int rank = 0; rank < world_size; ++rank) {
        in_place.push_back(rank % 3 == 1);
        SHOAL_ASSERT_OK_AND_ASSIGN(
            schedules.emplace_back(),
            BuildSchedule(signature, rank, world_size, in_place.back()));
      }
      SHOAL_ASSERT_OK(
          VerifySchedules(schedules, in_place, {1, 3, kUnlimitedLink}));
    }
  }
}

}  // namespace
}  // namespace shoal::internal
