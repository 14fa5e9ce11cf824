// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/vocab_shard.h"

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

TEST(VocabShardTest, PadsToEqualRows) {
  // GPT-2's vocabulary over 8 ranks in multiples of 128, as in Megatron-LM.
  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard last,
                             VocabShard::Create(50257, 128, 7, 8));
  EXPECT_EQ(last.padded_size(), 51200);
  EXPECT_EQ(last.rows_per_rank(), 6400);
  EXPECT_EQ(last.padded_range(), (Range{44800, 51200}));
  EXPECT_EQ(last.token_range(), (Range{44800, 50257}));
  EXPECT_EQ(last.padding(), 943);
}

TEST(VocabShardTest, NothingIsPaddedWhereItDivides) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard shard,
                             VocabShard::Create(32000, 1, 3, 4));
  EXPECT_EQ(shard.padded_size(), 32000);
  EXPECT_EQ(shard.token_range(), (Range{24000, 32000}));
  EXPECT_EQ(shard.padding(), 0);
}

TEST(VocabShardTest, LastRanksMayHoldPaddingOnly) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard shard,
                             VocabShard::Create(5, 2, 3, 4));
  EXPECT_EQ(shard.padded_range(), (Range{6, 8}));
  EXPECT_EQ(shard.token_range(), (Range{5, 5}));
  EXPECT_EQ(shard.padding(), 2);
}

TEST(VocabShardTest, TokensTileAndRowsAreEqualInEveryWorld) {
  for (int world = 1; world <= 64; ++world) {
    for (int64_t vocab = 1; vocab <= 200; ++vocab) {
      for (const int64_t pad_to : {1, 7, 64}) {
        std::vector<Range> tokens;
        std::vector<Range> rows;
        for (int rank = 0; rank < world; ++rank) {
          SHOAL_ASSERT_OK_AND_ASSIGN(
              const VocabShard shard,
              VocabShard::Create(vocab, pad_to, rank, world));
          tokens.push_back(shard.token_range());
          rows.push_back(shard.padded_range());
          ASSERT_EQ(rows.back().size() % pad_to, 0) << shard;
          ASSERT_EQ(shard.padding(), rows.back().size() - tokens.back().size());
          // No smaller size would do.
          ASSERT_GE(shard.padded_size(), vocab) << shard;
          ASSERT_LT(shard.padded_size() - pad_to * world, vocab) << shard;
          for (int64_t t = tokens.back().begin; t < tokens.back().end; ++t) {
            ASSERT_TRUE(rows.back().Contains(t)) << shard;
            ASSERT_THAT(shard.OwnerOf(t), IsOkAndHolds(rank)) << shard;
          }
        }
        ASSERT_TRUE(internal::TilesInOrder(tokens, vocab)) << world;
        ASSERT_TRUE(internal::TilesInOrder(rows, rows.back().end)) << world;
        ASSERT_EQ(internal::SizeSpread(rows), 0) << world;
      }
    }
  }
}

TEST(VocabShardTest, RefusesTokensOutsideTheVocabulary) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard shard,
                             VocabShard::Create(101, 32, 0, 4));
  EXPECT_THAT(shard.OwnerOf(100), IsOkAndHolds(3));
  for (const int64_t token : {int64_t{-1}, int64_t{101}, kMaxInt64}) {
    EXPECT_THAT(shard.OwnerOf(token),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("token"), HasSubstr("101 tokens"))));
  }
}

TEST(VocabShardTest, RefusesImpossibleArguments) {
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(VocabShard::Create(0, 1, 0, 4),
              refused("vocab_size must be > 0, got 0"));
  EXPECT_THAT(VocabShard::Create(100, 0, 0, 4),
              refused("pad_to must be > 0, got 0"));
  EXPECT_THAT(VocabShard::Create(100, 1, 4, 4),
              refused("rank 4 out of range for world 4"));
  EXPECT_THAT(VocabShard::Create(100, 1, 0, 0),
              refused("world_size must be > 0, got 0"));
}

TEST(VocabShardTest, RefusesPaddingThatOverflows) {
  SHOAL_EXPECT_OK(VocabShard::Create(kMaxInt64, 1, 0, 1));
  EXPECT_THAT(VocabShard::Create(kMaxInt64, 1, 0, 2),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("64 bits")));
  EXPECT_THAT(VocabShard::Create(100, kMaxInt64, 0, 2),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("64 bits")));
}

TEST(VocabShardTest, IsReadableComparableAndHashable) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard a,
                             VocabShard::Create(101, 32, 3, 4));
  std::ostringstream stream;
  stream << a;
  EXPECT_EQ(stream.str(),
            "rank 3 of 4: tokens [96, 101) of 101, 27 rows of padding");

  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard other_vocab,
                             VocabShard::Create(102, 32, 3, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard other_pad,
                             VocabShard::Create(101, 16, 3, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard other_rank,
                             VocabShard::Create(101, 32, 2, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const VocabShard other_world,
                             VocabShard::Create(101, 32, 3, 5));
  EXPECT_THAT(VocabShard::Create(101, 32, 3, 4), IsOkAndHolds(a));
  for (const VocabShard& other :
       {other_vocab, other_pad, other_rank, other_world}) {
    EXPECT_NE(a, other);
  }
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {a, other_vocab, other_pad, other_rank, other_world}));
}

}  // namespace
}  // namespace shoal
