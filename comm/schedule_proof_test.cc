// SPDX-License-Identifier: Apache-2.0
//
// Proves every schedule: each collective by each of its algorithms, in place
// and out of place, for every world of 1 to 64 ranks, awkward counts, every
// root (of larger worlds some), and links of 1, 3 and unlimited items.
// schedule_verifier.h says what is proved.

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
  for (const CallKind kind : kCollectiveKinds) {
    for (const Algorithm algorithm : AlgorithmsOf(kind)) {
      all.push_back({kind, algorithm});
    }
  }
  return all;
}

// Whether some rank has memory of world_size times the count, and every link is
// used.
bool IsWide(CallKind kind) {
  return kind != CallKind::kAllReduce && kind != CallKind::kReduce &&
         kind != CallKind::kBroadcast && kind != CallKind::kBarrier;
}

std::vector<std::int64_t> Counts(const Collective& collective, int world_size) {
  if (collective.kind == CallKind::kBarrier) return {0};
  std::set<std::int64_t> counts = {0, 1, 2, 7};
  const bool wide = IsWide(collective.kind) ||
                    collective.algorithm == Algorithm::kDirect ||
                    collective.algorithm == Algorithm::kOneShot;
  if (wide && world_size > 16) {
    counts = {0, 1};
    // Parts of one element and of two.
    if (collective.kind == CallKind::kAllReduce) counts.insert(world_size + 1);
  } else {
    counts.insert(
        {world_size - 1, world_size, world_size + 1, 2 * world_size + 3});
  }
  return {counts.begin(), counts.end()};
}

// What can stall on a small link stalls with a few elements as well; long
// vectors in large worlds would only take long.
std::vector<std::int64_t> Capacities(std::int64_t count, int world_size) {
  if (world_size > 16 && count > 7) return {kUnlimitedLink};
  return {1, 3, kUnlimitedLink};
}

std::vector<int> Roots(CallKind kind, int world_size) {
  if (!HasRoot(kind)) return {0};
  std::set<int> roots = {0, 1 % world_size, world_size / 2, world_size - 1};
  if (world_size <= 16) {
    for (int root = 0; root < world_size; ++root) roots.insert(root);
  }
  return {roots.begin(), roots.end()};
}

// How much `from` sends to `to`, in 0 to about twice `count`, with zeros.
std::int64_t Uneven(int from, int to, std::int64_t count) {
  return (from * 7 + to * 3 + from * to) % 5 * count / 2;
}

std::vector<std::int64_t> CountsOfParts(CallKind kind, int rank, int world_size,
                                        std::int64_t count) {
  std::vector<std::int64_t> counts;
  for (int other = 0; other < world_size; ++other) {
    if (kind == CallKind::kAllGatherV) {
      counts.push_back(Uneven(other, other, count));
    } else if (kind == CallKind::kAllToAllV) {
      counts.push_back(Uneven(rank, other, count));
    }
  }
  if (kind != CallKind::kAllToAllV) return counts;
  for (int other = 0; other < world_size; ++other) {
    counts.push_back(Uneven(other, rank, count));
  }
  return counts;
}

CallSignature SignatureOf(const Collective& collective, std::int64_t count,
                          int root, int world_size) {
  CallSignature signature;
  signature.kind = collective.kind;
  signature.algorithm = collective.algorithm;
  signature.count = count;
  signature.root = root;
  if (collective.kind == CallKind::kAllToAllV) signature.count = 0;
  if (collective.kind == CallKind::kAllGatherV) {
    signature.count = 0;
    for (const std::int64_t part :
         CountsOfParts(collective.kind, 0, world_size, count)) {
      signature.count += part;
    }
  }
  return signature;
}

class ScheduleProofTest
    : public testing::TestWithParam<std::tuple<Collective, int>> {};

TEST_P(ScheduleProofTest, Holds) {
  const auto [collective, world_size] = GetParam();
  if (TriesFewerCases() && world_size > 17) {
    GTEST_SKIP() << "one of the cases left out";
  }
  const CallKind kind = collective.kind;
  const int n = world_size;
  for (const std::int64_t count : Counts(collective, n)) {
    for (const int root : Roots(kind, n)) {
      const CallSignature signature = SignatureOf(collective, count, root, n);
      for (const bool in_place : {false, true}) {
        SHOAL_ASSERT_OK(VerifyCollective(
            signature,
            [&](int rank) { return CountsOfParts(kind, rank, n, count); }, n,
            in_place, Capacities(count, n)))
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
      for (const char c : AlgorithmName(collective.algorithm)) {
        name += c == '-' ? '_' : c;
      }
      return name + "World" + std::to_string(std::get<1>(info.param));
    });

// Whether a rank works in place is its own affair.
TEST(ScheduleProofOfMixedRanksTest, SomeInPlaceAndSomeNot) {
  for (const Collective& collective : AllCollectives()) {
    for (int world_size = 2; world_size <= 9; ++world_size) {
      const std::int64_t count =
          collective.kind == CallKind::kBarrier ? 0 : world_size + 2;
      const CallSignature signature =
          SignatureOf(collective, count,
                      world_size / 2 * HasRoot(collective.kind), world_size);
      std::vector<Schedule> schedules;
      std::vector<bool> in_place;
      for (int rank = 0; rank < world_size; ++rank) {
        in_place.push_back(rank % 3 == 1);
        SHOAL_ASSERT_OK_AND_ASSIGN(
            schedules.emplace_back(),
            BuildSchedule(
                {signature,
                 CountsOfParts(collective.kind, rank, world_size, count), rank,
                 world_size, in_place.back()}));
      }
      SHOAL_ASSERT_OK(
          VerifySchedules(schedules, in_place, {1, 3, kUnlimitedLink}));
    }
  }
}

}  // namespace
}  // namespace shoal::internal
