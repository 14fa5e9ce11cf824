// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/group_factory.h"

#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/comm/failure_domain.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(RanksOfColorTest, OrdersByKey) {
  const std::vector<std::int64_t> colors = {1, 0, 1, 0, 1};
  const std::vector<std::int64_t> keys = {5, 2, kLeast, 1, kMost};
  EXPECT_THAT(RanksOfColor(colors, keys, 1), ElementsAre(2, 0, 4));
  EXPECT_THAT(RanksOfColor(colors, keys, 0), ElementsAre(3, 1));
}

TEST(RanksOfColorTest, OrdersEqualKeysByRank) {
  // More than an unstable sort leaves in order by chance.
  constexpr int kRanks = 100;
  std::vector<std::int64_t> colors(kRanks, -3);
  std::vector<std::int64_t> keys;
  for (int rank = 0; rank < kRanks; ++rank) keys.push_back(-(rank % 3));
  std::vector<int> expected;
  for (const int remainder : {2, 1, 0}) {
    for (int rank = remainder; rank < kRanks; rank += 3) {
      expected.push_back(rank);
    }
  }
  EXPECT_EQ(RanksOfColor(colors, keys, -3), expected);
}

TEST(RanksOfColorTest, MayBeNobodyOrAll) {
  EXPECT_THAT(RanksOfColor({}, {}, 0), IsEmpty());
  EXPECT_THAT(RanksOfColor({0, 1}, {0, 0}, 2), IsEmpty());
  EXPECT_THAT(RanksOfColor({kMost}, {0}, kMost), ElementsAre(0));
  EXPECT_THAT(RanksOfColor({0, 0, 0}, {2, 1, 0}, 0), ElementsAre(2, 1, 0));
}

TEST(MakeCommunicatorIdTest, NoTwoAreTheSame) {
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  std::set<CommunicatorId> ids = {kWorldId, kAnyCommunicator};
  for (const int job_rank : {0, 1, 2, 65535, 65536}) {
    for (const std::uint32_t number : {1u, 2u, 1u << 31, kLast}) {
      EXPECT_TRUE(ids.insert(MakeCommunicatorId(job_rank, number)).second)
          << "rank " << job_rank << ", number " << number;
    }
  }
}

}  // namespace
}  // namespace shoal::internal
