// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/ranks.h"

#include "gtest/gtest.h"
#include "shoal/partition/pipeline_partition.h"

namespace shoal::ring_demo {
namespace {

TEST(LayersTextTest, NamesTheLastLayer) {
  EXPECT_EQ(LayersText({8, 16}), "8..15");
  EXPECT_EQ(LayersText({8, 9}), "8");
  EXPECT_EQ(LayersText({8, 8}), "none");
}

TEST(RanksTextTest, SaysWhoDoesWhat) {
  EXPECT_EQ(RanksText({{0, "north", 4711, {2, 3}, BlockRole::kLast},
                       {1, "south-1", 9, {1, 2}, BlockRole::kMiddle},
                       {2, "x", 12, {0, 1}, BlockRole::kFirst}}),
            "  rank  host         pid  layers  role\n"
            "     0  north       4711       2  last    runs the head\n"
            "     1  south-1        9       1  middle\n"
            "     2  x             12       0  first   embeds tokens\n");
  EXPECT_EQ(RanksText({{0, "h", 1, {0, 128}, BlockRole::kSingle}}),
            "  rank  host      pid  layers  role\n"
            "     0  h           1  0..127  single  embeds tokens, runs the "
            "head\n");
}

}  // namespace
}  // namespace shoal::ring_demo
