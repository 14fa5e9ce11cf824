// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal::comm_bench {
namespace {

constexpr std::int64_t kCount = 2 * Pattern::kPeriod + 17;

TEST(PatternTest, WhatIsFilledIsRight) {
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllReduceOps) {
      if (!ReduceOpTakes(op, dtype)) continue;
      const Pattern pattern(dtype, op, 5);
      std::vector<char> memory(kCount * DTypeSize(dtype) + 1);
      char* data = memory.data() + 1;  // misaligned
      for (const int whose : {0, 4, kReduced}) {
        for (const std::int64_t first : {std::int64_t{0}, std::int64_t{4000}}) {
          pattern.Fill(whose, first, kCount, data);
          EXPECT_EQ(pattern.CountWrong(whose, first, kCount, data), 0);
        }
      }
      EXPECT_EQ(pattern.CountWrong(0, 0, 0, nullptr), 0);
    }
  }
}

TEST(PatternTest, EachWrongElementCounts) {
  const Pattern pattern(DType::kF32, ReduceOp::kSum, 3);
  std::vector<float> data(kCount);
  pattern.Fill(1, 0, kCount, data.data());
  data[0] += 1;
  data[Pattern::kPeriod] = std::nanf("");
  data[kCount - 1] = -1;
  EXPECT_EQ(pattern.CountWrong(1, 0, kCount, data.data()), 3);
}

TEST(PatternTest, RanksAndPlacesDiffer) {
  const Pattern pattern(DType::kF32, ReduceOp::kSum, 4);
  std::vector<float> data(kCount);
  pattern.Fill(2, 0, kCount, data.data());
  for (const int other : {0, 1, 3, kReduced}) {
    EXPECT_GT(pattern.CountWrong(other, 0, kCount, data.data()),
              kCount * 9 / 10);
  }
  // Shifted, as by an algorithm that cuts in the wrong place.
  for (const std::int64_t shift : {1, 2, 16, 1024, 4096}) {
    EXPECT_GT(pattern.CountWrong(2, shift, kCount, data.data()),
              kCount * 8 / 10)
        << shift;
  }
}

// Sums by hand, in float and the wrong way round, so that one that was not
// exact would be seen.
TEST(PatternTest, SumsAreExactUpTo64Ranks) {
  for (const int world : {1, 2, 7, 64}) {
    const Pattern pattern(DType::kF32, ReduceOp::kSum, world);
    std::vector<float> sum(Pattern::kPeriod, 0);
    std::vector<float> one(Pattern::kPeriod);
    for (int rank = world - 1; rank >= 0; --rank) {
      pattern.Fill(rank, 0, Pattern::kPeriod, one.data());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    EXPECT_EQ(pattern.CountWrong(kReduced, 0, Pattern::kPeriod, sum.data()), 0);
  }
}

// The smallest that is not within the tolerance counts, in the reduction only.
TEST(PatternTest, OnlyWireFormatsThatRoundHaveATolerance) {
  for (const WireFormat wire :
       {WireFormat::kAsData, WireFormat::kBF16, WireFormat::kQ8_0}) {
    const Pattern pattern(DType::kF32, ReduceOp::kSum, 2, wire);
    std::vector<float> data(Pattern::kPeriod);
    const auto wrong_if = [&](int whose, float factor, float offset) {
      pattern.Fill(whose, 0, Pattern::kPeriod, data.data());
      for (float& element : data) element = element * factor + offset;
      return pattern.CountWrong(whose, 0, Pattern::kPeriod, data.data());
    };
    pattern.Fill(kReduced, 0, Pattern::kPeriod, data.data());
    const float largest = *std::max_element(data.begin(), data.end());
    // Three roundings.
    const float off = wire == WireFormat::kBF16   ? 3.0f / 256
                      : wire == WireFormat::kQ8_0 ? 3 / 254.0f
                                                  : 0;
    const bool relative = wire != WireFormat::kQ8_0;
    EXPECT_EQ(wrong_if(kReduced, relative ? 1 + off : 1,
                       relative ? 0 : off * largest),
              0)
        << wire;
    EXPECT_GT(wrong_if(kReduced, relative ? 1.02f + off : 1,
                       relative ? 0 : (0.02f + off) * largest),
              Pattern::kPeriod * 9 / 10)
        << wire;
    EXPECT_GT(wrong_if(1, 1.001f, 0.001f), Pattern::kPeriod * 9 / 10) << wire;
    EXPECT_EQ(wrong_if(kReduced, std::nanf(""), 0), Pattern::kPeriod) << wire;
  }
}

TEST(PatternTest, BytesWrapAround) {
  const Pattern pattern(DType::kU8, ReduceOp::kSum, 9);
  std::vector<std::uint8_t> sum(Pattern::kPeriod, 0);
  std::vector<std::uint8_t> one(Pattern::kPeriod);
  for (int rank = 0; rank < 9; ++rank) {
    pattern.Fill(rank, 0, Pattern::kPeriod, one.data());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
  }
  EXPECT_EQ(pattern.CountWrong(kReduced, 0, Pattern::kPeriod, sum.data()), 0);
}

// What each further rank adds can be seen in some element.
TEST(PatternTest, NoRankCanBeLeftOutUnseen) {
  for (const DType dtype : kAllDTypes) {
    const Pattern all(dtype, ReduceOp::kSum, 4);
    const Pattern fewer(dtype, ReduceOp::kSum, 3);
    std::vector<char> data(kCount * DTypeSize(dtype));
    fewer.Fill(kReduced, 0, kCount, data.data());
    EXPECT_GT(all.CountWrong(kReduced, 0, kCount, data.data()), kCount / 2)
        << dtype;
  }
}

}  // namespace
}  // namespace shoal::comm_bench
