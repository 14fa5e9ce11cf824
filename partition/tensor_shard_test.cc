// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/tensor_shard.h"

#include <array>
#include <cstdint>
#include <limits>
#include <sstream>
#include <vector>

#include "absl/hash/hash_testing.h"
#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tiling.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

TEST(TensorShardTest, ShardDimsAreDistinct) {
  EXPECT_NE(ShardDim::kColumn, ShardDim::kRow);
}

TEST(TensorShardTest, CutsColumnsOrRows) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const TensorShard columns,
      TensorShard::Create(1, 3, ShardDim::kColumn, {6, 11}));
  EXPECT_EQ(columns.range(), (Range{3, 6}));
  EXPECT_THAT(columns.shard_shape(), ElementsAre(6, 3));

  SHOAL_ASSERT_OK_AND_ASSIGN(
      const TensorShard rows,
      TensorShard::Create(1, 3, ShardDim::kRow, {6, 11}));
  EXPECT_EQ(rows.range(), (Range{2, 4}));
  EXPECT_THAT(rows.shard_shape(), ElementsAre(2, 11));
}

TEST(TensorShardTest, LastRankTakesTheRemainder) {
  // Not rank * 11 / 3, which would give 0, 3, 7, 11.
  const std::array<Range, 3> expected = {Range{0, 3}, Range{3, 6},
                                         Range{6, 11}};
  for (int rank = 0; rank < 3; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(
        const TensorShard shard,
        TensorShard::Create(rank, 3, ShardDim::kColumn, {4, 11}));
    EXPECT_EQ(shard.start(), expected[rank].begin);
    EXPECT_EQ(shard.end(), expected[rank].end);
    EXPECT_EQ(shard.shard_size(), expected[rank].size());
  }
}

TEST(TensorShardTest, FewerIndicesThanRanksAllGoToTheLast) {
  for (int rank = 0; rank < 7; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(
        const TensorShard shard,
        TensorShard::Create(rank, 7, ShardDim::kRow, {5, 1}));
    EXPECT_EQ(shard.range(), rank < 6 ? (Range{0, 0}) : (Range{0, 5}));
  }
}

TEST(TensorShardTest, ShardsTileEverySizeInEveryWorld) {
  for (int world = 1; world <= 64; ++world) {
    for (int64_t full = 0; full <= 200; ++full) {
      std::vector<Range> ranges;
      for (int rank = 0; rank < world; ++rank) {
        SHOAL_ASSERT_OK_AND_ASSIGN(
            const TensorShard shard,
            TensorShard::Create(rank, world, ShardDim::kRow, {full, 3}));
        ranges.push_back(shard.range());
        if (rank < world - 1) {
          ASSERT_EQ(shard.shard_size(), full / world)
              << full << " rows, rank " << rank << " of " << world;
        }
      }
      ASSERT_TRUE(internal::TilesInOrder(ranges, full))
          << full << " rows, world " << world;
    }
  }
}

TEST(TensorShardTest, LargestArgumentsDoNotOverflow) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const TensorShard last,
      TensorShard::Create(kMaxInt - 1, kMaxInt, ShardDim::kColumn,
                          {kMaxInt64, kMaxInt64}));
  EXPECT_EQ(last.start(), (kMaxInt - 1) * (kMaxInt64 / kMaxInt));
  EXPECT_EQ(last.end(), kMaxInt64);
}

TEST(TensorShardTest, RefusesImpossibleArguments) {
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(TensorShard::Create(2, 2, ShardDim::kRow, {4, 4}),
              refused("rank 2 out of range for world 2"));
  EXPECT_THAT(TensorShard::Create(-1, 2, ShardDim::kRow, {4, 4}),
              refused("rank -1 out of range for world 2"));
  EXPECT_THAT(TensorShard::Create(0, 0, ShardDim::kRow, {4, 4}),
              refused("world_size must be > 0, got 0"));
  EXPECT_THAT(TensorShard::Create(0, 2, ShardDim::kRow, {-4, 4}),
              refused("rows must be >= 0, got -4"));
  EXPECT_THAT(TensorShard::Create(0, 2, ShardDim::kRow, {4, -5}),
              refused("cols must be >= 0, got -5"));
  EXPECT_THAT(TensorShard::Create(0, 2, static_cast<ShardDim>(9), {4, 4}),
              refused("dim must be kColumn or kRow, got 9"));
}

TEST(TensorShardTest, IsReadable) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const TensorShard shard,
      TensorShard::Create(1, 2, ShardDim::kColumn, {4096, 4096}));
  std::ostringstream stream;
  stream << shard;
  EXPECT_EQ(stream.str(), "rank 1 of 2: columns [2048, 4096) of [4096, 4096]");
  EXPECT_EQ(ShardDimName(ShardDim::kRow), "row");
  EXPECT_EQ(ShardDimName(static_cast<ShardDim>(9)), "unknown");
}

TEST(TensorShardTest, HashAgreesWithEquality) {
  std::vector<TensorShard> shards;
  for (const ShardDim dim : {ShardDim::kColumn, ShardDim::kRow}) {
    for (const std::array<int64_t, 2> shape :
         {std::array<int64_t, 2>{4, 6}, std::array<int64_t, 2>{6, 4}}) {
      for (int world = 1; world <= 2; ++world) {
        for (int rank = 0; rank < world; ++rank) {
          SHOAL_ASSERT_OK_AND_ASSIGN(
              const TensorShard shard,
              TensorShard::Create(rank, world, dim, shape));
          for (const TensorShard& other : shards) EXPECT_NE(shard, other);
          shards.push_back(shard);
          EXPECT_EQ(shard, shards.back());
        }
      }
    }
  }
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(shards));
}

}  // namespace
}  // namespace shoal
