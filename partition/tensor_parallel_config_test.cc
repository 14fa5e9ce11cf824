// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/tensor_parallel_config.h"

#include <cstdint>
#include <sstream>
#include <vector>

#include "absl/hash/hash_testing.h"
#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tensor_shard.h"
#include "shoal/partition/tiling.h"

namespace shoal {
namespace {

using testing::HasSubstr;

TEST(TensorParallelConfigTest, DocumentedExample) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig config,
                             TensorParallelConfig::Create(4));
  EXPECT_EQ(config.world_size(), 4);
  EXPECT_THAT(config.ShardRange(1, 4096, ShardDim::kColumn),
              IsOkAndHolds(Range{1024, 2048}));
}

TEST(TensorParallelConfigTest, ConfigShardRange) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig config,
                             TensorParallelConfig::Create(4));
  EXPECT_THAT(config.ShardRange(0, 4096, ShardDim::kColumn),
              IsOkAndHolds(Range{0, 1024}));
  EXPECT_THAT(config.ShardRange(3, 4096, ShardDim::kColumn),
              IsOkAndHolds(Range{3072, 4096}));
}

TEST(TensorParallelConfigTest, ShardRangeWithRemainder) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig config,
                             TensorParallelConfig::Create(3));
  // 10 / 3 = 3 a rank; the last one gets 10 - 6 = 4.
  EXPECT_THAT(config.ShardRange(2, 10, ShardDim::kRow),
              IsOkAndHolds(Range{6, 10}));
}

TEST(TensorParallelConfigTest, ShardRangesPartitionExactly) {
  for (int world = 1; world <= 64; ++world) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig config,
                               TensorParallelConfig::Create(world));
    for (const int64_t full : {0, 1, 7, 10, 61, 200, 4096}) {
      std::vector<Range> ranges;
      for (int rank = 0; rank < world; ++rank) {
        SHOAL_ASSERT_OK_AND_ASSIGN(
            const Range range, config.ShardRange(rank, full, ShardDim::kRow));
        EXPECT_THAT(config.ShardRange(rank, full, ShardDim::kColumn),
                    IsOkAndHolds(range));
        ranges.push_back(range);
      }
      EXPECT_TRUE(internal::TilesInOrder(ranges, full))
          << "world " << world << ", full " << full;
    }
  }
}

TEST(TensorParallelConfigTest, TensorShardMetadata) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig config,
                             TensorParallelConfig::Create(2));
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const TensorShard shard,
      config.MakeShard(1, ShardDim::kColumn, {4096, 4096}));
  EXPECT_EQ(shard.rank(), 1);
  EXPECT_EQ(shard.world_size(), 2);
  EXPECT_EQ(shard.dim(), ShardDim::kColumn);
  EXPECT_EQ(shard.start(), 2048);
  EXPECT_EQ(shard.end(), 4096);
  EXPECT_EQ(shard.shard_size(), 2048);
}

TEST(TensorParallelConfigTest, ZeroWorldSizeIsAnErrorNotAnAbort) {
  EXPECT_THAT(TensorParallelConfig::Create(0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("world_size must be > 0, got 0")));
  EXPECT_THAT(TensorParallelConfig::Create(-2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("world_size must be > 0, got -2")));
}

TEST(TensorParallelConfigTest, SingleDeviceShardCoversAll) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig config,
                             TensorParallelConfig::Create(1));
  EXPECT_THAT(config.ShardRange(0, 4096, ShardDim::kColumn),
              IsOkAndHolds(Range{0, 4096}));
}

TEST(TensorParallelConfigTest, RefusesImpossibleArguments) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig config,
                             TensorParallelConfig::Create(4));
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(config.ShardRange(4, 8, ShardDim::kRow),
              refused("rank 4 out of range for world 4"));
  EXPECT_THAT(config.ShardRange(-1, 8, ShardDim::kRow),
              refused("rank -1 out of range for world 4"));
  EXPECT_THAT(config.ShardRange(0, -8, ShardDim::kRow),
              refused("full_size must be >= 0, got -8"));
  EXPECT_THAT(config.ShardRange(0, 8, static_cast<ShardDim>(5)),
              refused("dim must be kColumn or kRow, got 5"));
  EXPECT_THAT(config.MakeShard(7, ShardDim::kRow, {8, 8}),
              refused("rank 7 out of range for world 4"));
}

TEST(TensorParallelConfigTest, IsReadableComparableAndHashable) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig one,
                             TensorParallelConfig::Create(1));
  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorParallelConfig four,
                             TensorParallelConfig::Create(4));
  std::ostringstream stream;
  stream << four;
  EXPECT_EQ(stream.str(), "tensor-parallel size 4");
  EXPECT_NE(one, four);
  EXPECT_THAT(TensorParallelConfig::Create(4), IsOkAndHolds(four));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly({one, four}));
}

}  // namespace
}  // namespace shoal
