// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/layer_split.h"

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/hash/hash_testing.h"
#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/pipeline_partition.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tiling.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

TEST(LayerSplitTest, CountsAreByRankAndBlocksReversed) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit split,
                             LayerSplit::Parse(32, 4, "8,8,10,6"));
  EXPECT_EQ(split.num_layers(), 32);
  EXPECT_EQ(split.world_size(), 4);
  EXPECT_THAT(split.counts(), ElementsAre(8, 8, 10, 6));
  EXPECT_THAT(split.LayerRange(0), IsOkAndHolds(Range{24, 32}));
  EXPECT_THAT(split.LayerRange(1), IsOkAndHolds(Range{16, 24}));
  EXPECT_THAT(split.LayerRange(2), IsOkAndHolds(Range{6, 16}));
  EXPECT_THAT(split.LayerRange(3), IsOkAndHolds(Range{0, 6}));
}

TEST(LayerSplitTest, EvenSplitIsPipelineLayerRanges) {
  for (int world = 1; world <= 64; ++world) {
    for (int64_t layers = 0; layers <= 200; ++layers) {
      SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit split,
                                 LayerSplit::Even(layers, world));
      ASSERT_EQ(split.world_size(), world);
      for (int rank = 0; rank < world; ++rank) {
        SHOAL_ASSERT_OK_AND_ASSIGN(const Range expected,
                                   PipelineLayerRange(layers, rank, world));
        ASSERT_THAT(split.LayerRange(rank), IsOkAndHolds(expected))
            << layers << " layers, rank " << rank << " of " << world;
      }
    }
  }
}

TEST(LayerSplitTest, AnyCountsTile) {
  const std::vector<std::vector<int64_t>> lists = {
      {0}, {7}, {0, 0, 3}, {3, 0, 0}, {1, 2, 3, 4, 5}, {0, 61, 0, 0}};
  for (const std::vector<int64_t>& counts : lists) {
    int64_t total = 0;
    for (const int64_t count : counts) total += count;
    SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit split,
                               LayerSplit::FromCounts(total, counts));
    std::vector<Range> forward;
    for (int rank = split.world_size() - 1; rank >= 0; --rank) {
      SHOAL_ASSERT_OK_AND_ASSIGN(const Range range, split.LayerRange(rank));
      EXPECT_EQ(range.size(), counts[rank]);
      forward.push_back(range);
    }
    EXPECT_TRUE(internal::TilesInOrder(forward, total)) << split;
  }
}

TEST(LayerSplitTest, ParsesWithBlanks) {
  EXPECT_THAT(LayerSplit::Parse(5, 3, " 2, 0 ,3"),
              IsOkAndHolds(testing::Property(&LayerSplit::counts,
                                             ElementsAre(2, 0, 3))));
  EXPECT_THAT(
      LayerSplit::Parse(28, 1, "28"),
      IsOkAndHolds(testing::Property(&LayerSplit::counts, ElementsAre(28))));
}

TEST(LayerSplitTest, RefusesListsThatAreNoNumbers) {
  for (const std::string text : {"", ",", "8,,8", "8,8,", "8;8", "8,x", "8,8.5",
                                 "8,99999999999999999999", "0x8,8"}) {
    EXPECT_THAT(LayerSplit::Parse(16, 2, text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"" + text + "\""),
                               HasSubstr("is not a number of layers"))))
        << text;
  }
}

TEST(LayerSplitTest, RefusesWrongCountAndWrongSum) {
  EXPECT_THAT(
      LayerSplit::Parse(32, 4, "8,8,16"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("\"8,8,16\" lists 3 layer counts for world 4")));
  EXPECT_THAT(
      LayerSplit::Parse(32, 4, "8,8,10,7"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("8,8,10,7 sum to 33, but the model has 32 layers")));
  EXPECT_THAT(LayerSplit::Parse(4, 2, "5,-1"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("must be >= 0, got -1 in 5,-1")));
  EXPECT_THAT(
      LayerSplit::FromCounts(kMaxInt64, {kMaxInt64, kMaxInt64, 1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64 bits")));
}

TEST(LayerSplitTest, RefusesImpossibleArguments) {
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(LayerSplit::Even(8, 0), refused("world_size must be > 0, got 0"));
  EXPECT_THAT(LayerSplit::Even(-8, 2),
              refused("num_layers must be >= 0, got -8"));
  EXPECT_THAT(LayerSplit::FromCounts(0, {}), refused("world_size must be > 0"));
  EXPECT_THAT(LayerSplit::FromCounts(-1, {0}),
              refused("num_layers must be >= 0, got -1"));
  EXPECT_THAT(LayerSplit::Parse(8, 0, "8"),
              refused("world_size must be > 0, got 0"));
  SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit split, LayerSplit::Even(8, 2));
  EXPECT_THAT(split.LayerRange(2), refused("rank 2 out of range for world 2"));
  EXPECT_THAT(split.LayerRange(-1),
              refused("rank -1 out of range for world 2"));
}

TEST(LayerSplitTest, IsReadableComparableAndHashable) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit split,
                             LayerSplit::FromCounts(5, {2, 0, 3}));
  std::ostringstream stream;
  stream << split;
  EXPECT_EQ(stream.str(),
            "5 layers: rank 0 [3, 5), rank 1 [3, 3), rank 2 [0, 3)");

  SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit reversed,
                             LayerSplit::FromCounts(5, {3, 0, 2}));
  SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit shorter,
                             LayerSplit::FromCounts(5, {2, 3}));
  EXPECT_THAT(LayerSplit::Parse(5, 3, "2,0,3"), IsOkAndHolds(split));
  EXPECT_NE(split, reversed);
  EXPECT_NE(split, shorter);
  EXPECT_TRUE(
      absl::VerifyTypeImplementsAbslHashCorrectly({split, reversed, shorter}));
}

}  // namespace
}  // namespace shoal
