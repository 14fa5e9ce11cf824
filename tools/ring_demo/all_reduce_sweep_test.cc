// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/all_reduce_sweep.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/comm/algorithm.h"

namespace shoal::ring_demo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SweepSizesTest, EndsAtTheLargest) {
  EXPECT_THAT(SweepSizes(4), ElementsAre(4));
  EXPECT_THAT(SweepSizes(8), ElementsAre(4, 8));
  EXPECT_THAT(SweepSizes(64), ElementsAre(4, 16, 64));
  EXPECT_EQ(SweepSizes(16 << 20).size(), 12);
  EXPECT_EQ(SweepSizes(16 << 20).back(), 16 << 20);
}

// In any order, so that the sum is exact whatever the algorithm.
TEST(SweepSumTest, IsTheExactSumOfAllInputs) {
  for (int world = 1; world <= 64; ++world) {
    for (const std::int64_t i : {0, 1, 2, 1019, 1020, 1021, 4096, 4194303}) {
      float up = 0;
      float down = 0;
      for (int rank = 0; rank < world; ++rank) {
        up += SweepInput(rank, i);
        down += SweepInput(world - 1 - rank, i);
      }
      EXPECT_EQ(up, SweepSum(world, i)) << world << " " << i;
      EXPECT_EQ(down, SweepSum(world, i)) << world << " " << i;
      EXPECT_LT(up, 1 << 24);
    }
  }
}

TEST(SweepSumTest, TellsRanksAndPlacesApart) {
  for (std::int64_t i = 0; i < 5000; ++i) {
    EXPECT_NE(SweepInput(0, i), SweepInput(1, i));
    EXPECT_NE(SweepInput(2, i), SweepInput(5, i));
  }
  // Of a piece in the wrong place most elements are wrong.
  for (int world = 2; world <= 64; ++world) {
    for (std::int64_t shift = 1; shift <= 1 << 22; shift *= 2) {
      int same = 0;
      for (std::int64_t i = 0; i < 1000; ++i) {
        same += SweepSum(world, i) == SweepSum(world, i + shift);
      }
      EXPECT_LT(same, 500) << world << " " << shift;
    }
  }
}

TEST(CountWrongSumsTest, CountsEach) {
  std::vector<float> sums(3000);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = SweepSum(4, i);
  EXPECT_EQ(CountWrongSums(sums, 4), 0);
  EXPECT_EQ(CountWrongSums(sums, 5), 3000);
  sums[7] += 1;
  sums[2999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(CountWrongSums(sums, 4), 2);
  EXPECT_EQ(CountWrongSums({}, 4), 0);
}

TEST(AllReduceLineTest, StandsUnderItsHeader) {
  EXPECT_EQ(AllReduceHeader(),
            "      size   elements  algorithm           runs    median  "
            "bus bandwidth  wrong\n");
  EXPECT_EQ(AllReduceLine({65536, 16384, Algorithm::kRecursiveDoubling, 200,
                           0.00025, 393.2e6, 0}),
            "    64 KiB      16384  recursive-doubling   200    250 us  "
            "     393 MB/s      0\n");
  EXPECT_THAT(AllReduceLine({4, 1, Algorithm::kRing, 200, 1e-6, 0, 3}),
              HasSubstr("              -      3\n"));
}

}  // namespace
}  // namespace shoal::ring_demo
