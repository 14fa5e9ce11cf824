// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/range.h"

#include <cstdint>
#include <limits>
#include <sstream>

#include "absl/hash/hash_testing.h"
#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal {
namespace {

using testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(RangeTest, IsHalfOpen) {
  const Range range = {3, 6};
  EXPECT_EQ(range.size(), 3);
  EXPECT_FALSE(range.empty());
  EXPECT_FALSE(range.Contains(2));
  EXPECT_TRUE(range.Contains(3));
  EXPECT_TRUE(range.Contains(5));
  EXPECT_FALSE(range.Contains(6));
}

TEST(RangeTest, MayBeEmptyAnywhere) {
  for (const int64_t at : {int64_t{0}, int64_t{7}, kMax}) {
    const Range range = {at, at};
    SHOAL_EXPECT_OK(range.Validate());
    EXPECT_TRUE(range.empty());
    EXPECT_EQ(range.size(), 0);
    EXPECT_FALSE(range.Contains(at));
  }
}

TEST(RangeTest, RefusesNegativeAndInvertedRanges) {
  SHOAL_EXPECT_OK((Range{0, kMax}.Validate()));
  for (const Range range : {Range{-1, 4}, Range{4, 3}, Range{kMin, kMax},
                            Range{kMax, kMin}, Range{0, -1}}) {
    EXPECT_THAT(range.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr(range.ToString())))
        << range;
  }
}

TEST(RangeTest, IsWrittenInMathematicalNotation) {
  EXPECT_EQ((Range{3, 6}.ToString()), "[3, 6)");
  std::ostringstream stream;
  stream << Range{0, 28};
  EXPECT_EQ(stream.str(), "[0, 28)");
}

TEST(RangeTest, HashAgreesWithEquality) {
  EXPECT_EQ((Range{1, 2}), (Range{1, 2}));
  EXPECT_NE((Range{1, 2}), (Range{1, 3}));
  EXPECT_NE((Range{1, 2}), (Range{0, 2}));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {Range{}, Range{0, 1}, Range{1, 1}, Range{1, 2}, Range{2, 1}}));
}

}  // namespace
}  // namespace shoal
