// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/block_shard.h"

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
#include "shoal/partition/tensor_shard.h"
#include "shoal/partition/tiling.h"

namespace shoal {
namespace {

using testing::HasSubstr;

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

TEST(BlockShardTest, BlockSizesAreThoseOfGguf) {
  EXPECT_EQ(kQ4_0BlockSize, 32);
  EXPECT_EQ(kQ8_0BlockSize, 32);
  EXPECT_EQ(kKQuantBlockSize, 256);
}

TEST(BlockShardTest, UnevenBlocksAreSpread) {
  // 43 blocks over 4 ranks: 11, 11, 11 and 10.
  const int64_t starts[] = {0, 11 * 256, 22 * 256, 33 * 256, 11008};
  for (int rank = 0; rank < 4; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(
        const BlockShard shard,
        BlockShard::Create(11008, kKQuantBlockSize, rank, 4));
    EXPECT_EQ(shard.range(), (Range{starts[rank], starts[rank + 1]}));
  }
}

TEST(BlockShardTest, ShardsTileInWholeBlocksInEveryWorld) {
  for (const int64_t block : {int64_t{1}, kQ4_0BlockSize, kKQuantBlockSize}) {
    for (int world = 1; world <= 64; ++world) {
      for (int64_t blocks = 0; blocks <= 100; ++blocks) {
        std::vector<Range> ranges;
        for (int rank = 0; rank < world; ++rank) {
          SHOAL_ASSERT_OK_AND_ASSIGN(
              const BlockShard shard,
              BlockShard::Create(blocks * block, block, rank, world));
          ASSERT_EQ(shard.range().begin, shard.blocks().begin * block);
          ASSERT_EQ(shard.range().end, shard.blocks().end * block);
          ranges.push_back(shard.range());
        }
        ASSERT_TRUE(internal::TilesInOrder(ranges, blocks * block))
            << blocks << " blocks of " << block << ", world " << world;
        ASSERT_LE(internal::SizeSpread(ranges), block)
            << blocks << " blocks of " << block << ", world " << world;
      }
    }
  }
}

TEST(BlockShardTest, IsTheTensorShardWhereBlocksDivideEvenly) {
  for (int world = 1; world <= 8; ++world) {
    const int64_t full = 3 * kQ4_0BlockSize * world;
    for (int rank = 0; rank < world; ++rank) {
      SHOAL_ASSERT_OK_AND_ASSIGN(
          const BlockShard blocks,
          BlockShard::Create(full, kQ4_0BlockSize, rank, world));
      SHOAL_ASSERT_OK_AND_ASSIGN(
          const TensorShard plain,
          TensorShard::Create(rank, world, ShardDim::kRow, {full, 1}));
      EXPECT_EQ(blocks.range(), plain.range());
    }
  }
}

TEST(BlockShardTest, LargestArgumentsDoNotOverflow) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const BlockShard shard,
                             BlockShard::Create(kMaxInt64, 1, 6, 7));
  EXPECT_EQ(shard.range().end, kMaxInt64);
  EXPECT_THAT(
      BlockShard::Create(kMaxInt64, kMaxInt64, 0, 7),
      IsOkAndHolds(testing::Property(&BlockShard::range, Range{0, kMaxInt64})));
}

TEST(BlockShardTest, RefusesImpossibleArguments) {
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(BlockShard::Create(100, 32, 0, 2),
              refused("full_size (100) not divisible by block_size (32)"));
  EXPECT_THAT(BlockShard::Create(-32, 32, 0, 2),
              refused("full_size must be >= 0, got -32"));
  EXPECT_THAT(BlockShard::Create(64, 0, 0, 2),
              refused("block_size must be > 0, got 0"));
  EXPECT_THAT(BlockShard::Create(64, 32, 2, 2),
              refused("rank 2 out of range for world 2"));
  EXPECT_THAT(BlockShard::Create(64, 32, 0, 0),
              refused("world_size must be > 0, got 0"));
}

TEST(BlockShardTest, IsReadableComparableAndHashable) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const BlockShard a,
                             BlockShard::Create(11008, 256, 0, 4));
  std::ostringstream stream;
  stream << a;
  EXPECT_EQ(stream.str(),
            "rank 0 of 4: [0, 2816) of 11008, blocks [0, 11) of 256");

  SHOAL_ASSERT_OK_AND_ASSIGN(const BlockShard other_block,
                             BlockShard::Create(11008, 32, 0, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const BlockShard other_size,
                             BlockShard::Create(11264, 256, 0, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const BlockShard other_rank,
                             BlockShard::Create(11008, 256, 1, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const BlockShard other_world,
                             BlockShard::Create(11008, 256, 0, 5));
  EXPECT_THAT(BlockShard::Create(11008, 256, 0, 4), IsOkAndHolds(a));
  for (const BlockShard& other :
       {other_block, other_size, other_rank, other_world}) {
    EXPECT_NE(a, other);
  }
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {a, other_block, other_size, other_rank, other_world}));
}

}  // namespace
}  // namespace shoal
