// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/even_split.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tiling.h"

namespace shoal::internal {
namespace {

TEST(EvenSplitTest, FirstPartsTakeTheRemainder) {
  EXPECT_EQ(EvenSplit(10, 0, 4), (Range{0, 3}));
  EXPECT_EQ(EvenSplit(10, 1, 4), (Range{3, 6}));
  EXPECT_EQ(EvenSplit(10, 2, 4), (Range{6, 8}));
  EXPECT_EQ(EvenSplit(10, 3, 4), (Range{8, 10}));
}

TEST(EvenSplitTest, PartsTileAndDifferByAtMostOne) {
  for (int parts = 1; parts <= 64; ++parts) {
    for (int64_t total = 0; total <= 200; ++total) {
      std::vector<Range> ranges;
      for (int i = 0; i < parts; ++i) {
        ranges.push_back(EvenSplit(total, i, parts));
        if (i > 0) {
          ASSERT_LE(ranges[i].size(), ranges[i - 1].size());
        }
      }
      ASSERT_TRUE(TilesInOrder(ranges, total)) << total << " in " << parts;
      ASSERT_LE(SizeSpread(ranges), 1) << total << " in " << parts;
    }
  }
}

TEST(EvenSplitTest, LargestTotalsDoNotOverflow) {
  constexpr int64_t kTotal = std::numeric_limits<int64_t>::max();
  constexpr int kParts = std::numeric_limits<int>::max();
  EXPECT_EQ(EvenSplit(kTotal, kParts - 1, kParts).end, kTotal);
  EXPECT_EQ(EvenSplit(kTotal, 0, 1), (Range{0, kTotal}));
}

}  // namespace
}  // namespace shoal::internal
