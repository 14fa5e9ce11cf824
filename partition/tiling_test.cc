// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/tiling.h"

#include "gtest/gtest.h"
#include "shoal/partition/range.h"

namespace shoal::internal {
namespace {

TEST(TilingTest, AcceptsRangesThatFollowEachOther) {
  EXPECT_TRUE(TilesInOrder({{0, 3}, {3, 3}, {3, 5}}, 5));
  EXPECT_TRUE(TilesInOrder({{0, 0}, {0, 0}}, 0));
}

TEST(TilingTest, RefusesGapsOverlapsAndMissingEnds) {
  EXPECT_FALSE(TilesInOrder({{0, 3}, {4, 5}}, 5));
  EXPECT_FALSE(TilesInOrder({{0, 3}, {2, 5}}, 5));
  EXPECT_FALSE(TilesInOrder({{1, 5}}, 5));
  EXPECT_FALSE(TilesInOrder({{0, 4}}, 5));
  EXPECT_FALSE(TilesInOrder({{0, 6}}, 5));
  EXPECT_FALSE(TilesInOrder({{3, 5}, {0, 3}}, 5));
  EXPECT_FALSE(TilesInOrder({{0, -1}, {-1, 0}}, 0));
}

TEST(TilingTest, SpreadIsLargestLessSmallest) {
  EXPECT_EQ(SizeSpread({{0, 3}}), 0);
  EXPECT_EQ(SizeSpread({{0, 3}, {3, 3}, {3, 5}}), 3);
}

}  // namespace
}  // namespace shoal::internal
