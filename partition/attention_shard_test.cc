// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/attention_shard.h"

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

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

TEST(AttentionShardTest, GroupedQueryHeadsKeepTheirKvHeads) {
  // Llama-3-8B over 4 ranks: 32 query heads, 8 KV heads.
  SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard shard,
                             AttentionShard::Create(32, 8, 1, 4));
  EXPECT_EQ(shard.query_heads(), (Range{8, 16}));
  EXPECT_EQ(shard.kv_heads(), (Range{2, 4}));
  EXPECT_EQ(shard.kv_replicas(), 1);
}

TEST(AttentionShardTest, FewerKvHeadsThanRanksAreReplicated) {
  // 8 ranks share 2 KV heads: ranks 0 to 3 hold the first, 4 to 7 the second.
  for (int rank = 0; rank < 8; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard shard,
                               AttentionShard::Create(16, 2, rank, 8));
    EXPECT_EQ(shard.query_heads(), (Range{2 * rank, 2 * rank + 2}));
    EXPECT_EQ(shard.kv_heads(), rank < 4 ? (Range{0, 1}) : (Range{1, 2}));
    EXPECT_EQ(shard.kv_replicas(), 4);
  }
}

// Every combination of small numbers: either it is refused on every rank, or
// the query heads tile, each rank holds just the KV heads of its query heads,
// and each KV head is held by kv_replicas() ranks.
TEST(AttentionShardTest, EveryAcceptedPlanIsComplete) {
  int accepted = 0;
  for (int64_t heads = 1; heads <= 24; ++heads) {
    for (int64_t kv_heads = 1; kv_heads <= 24; ++kv_heads) {
      for (int world = 1; world <= 24; ++world) {
        const bool fits = heads % kv_heads == 0 && heads % world == 0 &&
                          (kv_heads % world == 0 || world % kv_heads == 0);
        std::vector<Range> query_heads;
        std::vector<int64_t> holders(kv_heads, 0);
        int64_t replicas = 0;
        for (int rank = 0; rank < world; ++rank) {
          const auto shard =
              AttentionShard::Create(heads, kv_heads, rank, world);
          ASSERT_EQ(shard.ok(), fits)
              << heads << " heads, " << kv_heads << " KV heads, rank " << rank
              << " of " << world << ": " << shard.status();
          if (!fits) continue;
          query_heads.push_back(shard->query_heads());
          const int64_t queries_per_kv_head = heads / kv_heads;
          ASSERT_EQ(shard->kv_heads().begin,
                    shard->query_heads().begin / queries_per_kv_head)
              << *shard;
          ASSERT_EQ(shard->kv_heads().end - 1,
                    (shard->query_heads().end - 1) / queries_per_kv_head)
              << *shard;
          const Range held = shard->kv_heads();
          for (int64_t h = held.begin; h < held.end; ++h) ++holders[h];
          replicas = shard->kv_replicas();
        }
        if (!fits) continue;
        ++accepted;
        ASSERT_TRUE(internal::TilesInOrder(query_heads, heads));
        ASSERT_THAT(holders, testing::Each(replicas))
            << heads << " heads, " << kv_heads << " KV heads, world " << world;
      }
    }
  }
  EXPECT_GT(accepted, 200);
}

TEST(AttentionShardTest, RefusesHeadsThatDoNotDivide) {
  EXPECT_THAT(
      AttentionShard::Create(6, 6, 0, 4),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(
                         "heads (6) not divisible by tensor-parallel size (4)"),
                     HasSubstr("use a size that divides 6"))));
  EXPECT_THAT(
      AttentionShard::Create(12, 6, 0, 4),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("KV heads (6) not divisible by tensor-parallel size (4)")));
  EXPECT_THAT(
      AttentionShard::Create(12, 4, 0, 6),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("tensor-parallel size (6) not divisible by KV heads (4)")));
  EXPECT_THAT(AttentionShard::Create(6, 4, 0, 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("heads (6) not divisible by KV heads (4)")));
}

TEST(AttentionShardTest, RefusesImpossibleArguments) {
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(AttentionShard::Create(8, 8, 4, 4),
              refused("rank 4 out of range for world 4"));
  EXPECT_THAT(AttentionShard::Create(8, 8, 0, 0),
              refused("world_size must be > 0, got 0"));
  EXPECT_THAT(AttentionShard::Create(0, 8, 0, 4),
              refused("heads must be > 0, got 0"));
  EXPECT_THAT(AttentionShard::Create(8, -1, 0, 4),
              refused("KV heads must be > 0, got -1"));
}

TEST(AttentionShardTest, HeadsOccupyWholeColumns) {
  EXPECT_THAT(AttentionShard::HeadColumns(Range{2, 4}, 128),
              IsOkAndHolds(Range{256, 512}));
  EXPECT_THAT(AttentionShard::HeadColumns(Range{3, 3}, 64),
              IsOkAndHolds(Range{192, 192}));
  EXPECT_THAT(AttentionShard::HeadColumns(Range{0, kMaxInt64}, 1),
              IsOkAndHolds(Range{0, kMaxInt64}));
  EXPECT_THAT(AttentionShard::HeadColumns(Range{0, kMaxInt64}, 2),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("64 bits")));
  EXPECT_THAT(AttentionShard::HeadColumns(Range{2, 1}, 128),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(AttentionShard::HeadColumns(Range{0, 1}, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("head_dim must be > 0, got 0")));
}

TEST(AttentionShardTest, IsReadable) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard cut,
                             AttentionShard::Create(32, 8, 1, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard replicated,
                             AttentionShard::Create(8, 2, 3, 4));
  std::ostringstream stream;
  stream << cut << "\n" << replicated;
  EXPECT_EQ(stream.str(),
            "rank 1 of 4: query heads [8, 16) of 32, KV heads [2, 4) of 8\n"
            "rank 3 of 4: query heads [6, 8) of 8, KV heads [1, 2) of 2, each "
            "on 2 ranks");
}

TEST(AttentionShardTest, HashAgreesWithEquality) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard a,
                             AttentionShard::Create(8, 4, 1, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard other_rank,
                             AttentionShard::Create(8, 4, 2, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard other_world,
                             AttentionShard::Create(8, 4, 1, 2));
  SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard other_kv_heads,
                             AttentionShard::Create(8, 2, 1, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const AttentionShard other_heads,
                             AttentionShard::Create(16, 4, 1, 4));
  EXPECT_THAT(AttentionShard::Create(8, 4, 1, 4), IsOkAndHolds(a));
  for (const AttentionShard& other :
       {other_rank, other_world, other_kv_heads, other_heads}) {
    EXPECT_NE(a, other);
  }
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {a, other_rank, other_world, other_kv_heads, other_heads}));
}

}  // namespace
}  // namespace shoal
