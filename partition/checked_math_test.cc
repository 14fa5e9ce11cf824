// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/checked_math.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "gtest/gtest.h"

namespace shoal::internal {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(CheckedMathTest, AddsUpToTheEdge) {
  EXPECT_EQ(CheckedAdd(2, 3), 5);
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMin, -1), std::nullopt);
}

TEST(CheckedMathTest, MultipliesUpToTheEdge) {
  EXPECT_EQ(CheckedMultiply(6, 7), 42);
  EXPECT_EQ(CheckedMultiply(kMax, 1), kMax);
  EXPECT_EQ(CheckedMultiply(int64_t{1} << 31, int64_t{1} << 31),
            int64_t{1} << 62);
  EXPECT_EQ(CheckedMultiply(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedMultiply(kMin, -1), std::nullopt);
}

}  // namespace
}  // namespace shoal::internal
