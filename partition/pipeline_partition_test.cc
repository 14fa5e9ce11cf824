// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/pipeline_partition.h"

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tiling.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// The definition of the split, spelled out: stage i has per layers, and one
// more if i < extra; rank r is stage world - 1 - r.
Range DefinedLayerRange(int64_t num_layers, int rank, int world) {
  const int64_t per = num_layers / world;
  const int64_t extra = num_layers % world;
  const auto size_of = [&](int stage) { return per + (stage < extra ? 1 : 0); };
  const int own_stage = world - 1 - rank;
  int64_t start = 0;
  for (int stage = 0; stage < own_stage; ++stage) start += size_of(stage);
  return {start, start + size_of(own_stage)};
}

TEST(PipelinePartitionTest, RolesMapCorrectly) {
  EXPECT_THAT(GetBlockRole(0, 1), IsOkAndHolds(BlockRole::kSingle));
  EXPECT_THAT(GetBlockRole(0, 4), IsOkAndHolds(BlockRole::kLast));
  EXPECT_THAT(GetBlockRole(3, 4), IsOkAndHolds(BlockRole::kFirst));
  EXPECT_THAT(GetBlockRole(1, 4), IsOkAndHolds(BlockRole::kMiddle));
  EXPECT_THAT(GetBlockRole(2, 4), IsOkAndHolds(BlockRole::kMiddle));
}

TEST(PipelinePartitionTest, EvenSplitIsReversed) {
  // 16 layers over 4 ranks: rank 0 has the last 4, rank 3 the first 4.
  EXPECT_THAT(PipelineLayerRange(16, 0, 4), IsOkAndHolds(Range{12, 16}));
  EXPECT_THAT(PipelineLayerRange(16, 1, 4), IsOkAndHolds(Range{8, 12}));
  EXPECT_THAT(PipelineLayerRange(16, 2, 4), IsOkAndHolds(Range{4, 8}));
  EXPECT_THAT(PipelineLayerRange(16, 3, 4), IsOkAndHolds(Range{0, 4}));
}

TEST(PipelinePartitionTest, UnevenSplitTilesExactly) {
  // 10 layers over 4 ranks: the stages have 3, 3, 2 and 2.
  EXPECT_THAT(PipelineLayerRange(10, 0, 4), IsOkAndHolds(Range{8, 10}));
  EXPECT_THAT(PipelineLayerRange(10, 1, 4), IsOkAndHolds(Range{6, 8}));
  EXPECT_THAT(PipelineLayerRange(10, 2, 4), IsOkAndHolds(Range{3, 6}));
  EXPECT_THAT(PipelineLayerRange(10, 3, 4), IsOkAndHolds(Range{0, 3}));

  std::vector<int> owners(10, 0);
  for (int rank = 0; rank < 4; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const Range layers,
                               PipelineLayerRange(10, rank, 4));
    for (int64_t i = layers.begin; i < layers.end; ++i) ++owners[i];
  }
  EXPECT_THAT(owners, testing::Each(1));
}

TEST(PipelinePartitionTest, SingleRankOwnsAll) {
  EXPECT_THAT(PipelineLayerRange(28, 0, 1), IsOkAndHolds(Range{0, 28}));
}

TEST(PipelinePartitionTest, MoreRanksThanLayersIsSafe) {
  // 2 layers over 4 ranks: two ranks get one, two get none.
  int64_t total = 0;
  for (int rank = 0; rank < 4; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const Range layers,
                               PipelineLayerRange(2, rank, 4));
    total += layers.size();
  }
  EXPECT_EQ(total, 2);
  EXPECT_THAT(PipelineLayerRange(2, 3, 4), IsOkAndHolds(Range{0, 1}));
  EXPECT_THAT(PipelineLayerRange(2, 0, 4), IsOkAndHolds(Range{2, 2}));
}

TEST(PipelinePartitionTest, EveryLayerHasOneOwnerInEveryWorld) {
  for (int world = 1; world <= 64; ++world) {
    for (int64_t layers = 0; layers <= 200; ++layers) {
      std::vector<Range> forward;  // By stage.
      for (int rank = world - 1; rank >= 0; --rank) {
        SHOAL_ASSERT_OK_AND_ASSIGN(const Range range,
                                   PipelineLayerRange(layers, rank, world));
        ASSERT_EQ(range, DefinedLayerRange(layers, rank, world))
            << layers << " layers, rank " << rank << " of " << world;
        forward.push_back(range);
      }
      ASSERT_TRUE(internal::TilesInOrder(forward, layers))
          << layers << " layers, world " << world;
      ASSERT_LE(internal::SizeSpread(forward), 1)
          << layers << " layers, world " << world;
    }
  }
}

TEST(PipelinePartitionTest, EveryWorldHasOneFirstAndOneLastStage) {
  for (int world = 2; world <= 64; ++world) {
    for (int rank = 0; rank < world; ++rank) {
      SHOAL_ASSERT_OK_AND_ASSIGN(const int stage,
                                 PipelineStageOfRank(rank, world));
      EXPECT_EQ(stage, world - 1 - rank);
      const BlockRole expected = stage == 0           ? BlockRole::kFirst
                                 : stage == world - 1 ? BlockRole::kLast
                                                      : BlockRole::kMiddle;
      EXPECT_THAT(GetBlockRole(rank, world), IsOkAndHolds(expected));
    }
  }
}

TEST(PipelinePartitionTest, LargestArgumentsDoNotOverflow) {
  EXPECT_THAT(PipelineLayerRange(kMaxInt64, 0, 1),
              IsOkAndHolds(Range{0, kMaxInt64}));
  SHOAL_ASSERT_OK_AND_ASSIGN(const Range last,
                             PipelineLayerRange(kMaxInt64, 0, kMaxInt));
  EXPECT_EQ(last.end, kMaxInt64);
  EXPECT_EQ(last.size(), kMaxInt64 / kMaxInt);
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const Range first, PipelineLayerRange(kMaxInt64, kMaxInt - 1, kMaxInt));
  EXPECT_EQ(first.begin, 0);
  EXPECT_EQ(first.size(), kMaxInt64 / kMaxInt + 1);
}

TEST(PipelinePartitionTest, RefusesRanksOutsideTheWorld) {
  for (const int rank : {-1, 4, 5, kMaxInt, std::numeric_limits<int>::min()}) {
    const auto refused = [rank](const char* function) {
      return StatusIs(
          absl::StatusCode::kInvalidArgument,
          AllOf(HasSubstr(function), HasSubstr("rank " + std::to_string(rank) +
                                               " out of range for world 4")));
    };
    EXPECT_THAT(PipelineLayerRange(16, rank, 4), refused("PipelineLayerRange"));
    EXPECT_THAT(GetBlockRole(rank, 4), refused("GetBlockRole"));
    EXPECT_THAT(PipelineStageOfRank(rank, 4), refused("PipelineStageOfRank"));
  }
}

TEST(PipelinePartitionTest, RefusesWorldsWithoutRanks) {
  for (const int world : {0, -1, std::numeric_limits<int>::min()}) {
    const auto refused = StatusIs(
        absl::StatusCode::kInvalidArgument,
        HasSubstr("world_size must be > 0, got " + std::to_string(world)));
    EXPECT_THAT(PipelineLayerRange(16, 0, world), refused);
    EXPECT_THAT(GetBlockRole(0, world), refused);
    EXPECT_THAT(PipelineStageOfRank(0, world), refused);
  }
}

TEST(PipelinePartitionTest, RefusesNegativeLayers) {
  EXPECT_THAT(PipelineLayerRange(-3, 0, 4),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_layers must be >= 0, got -3")));
}

TEST(PipelinePartitionTest, RolesHaveNames) {
  std::ostringstream stream;
  stream << BlockRole::kSingle << " " << BlockRole::kFirst << " "
         << BlockRole::kMiddle << " " << BlockRole::kLast;
  EXPECT_EQ(stream.str(), "single first middle last");
  EXPECT_EQ(BlockRoleName(static_cast<BlockRole>(17)), "unknown");
}

}  // namespace
}  // namespace shoal
