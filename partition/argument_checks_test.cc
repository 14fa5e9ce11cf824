// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/argument_checks.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::internal {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ArgumentChecksTest, WorldSize) {
  SHOAL_EXPECT_OK(CheckWorldSize("F", 1));
  EXPECT_THAT(CheckWorldSize("F", 0),
              StatusIs(kInvalid, "F: world_size must be > 0, got 0"));
}

TEST(ArgumentChecksTest, Rank) {
  SHOAL_EXPECT_OK(CheckRank("F", 0, 1));
  SHOAL_EXPECT_OK(CheckRank("F", 3, 4));
  EXPECT_THAT(CheckRank("F", 4, 4),
              StatusIs(kInvalid,
                       "F: rank 4 out of range for world 4; ranks are 0 to 3"));
  EXPECT_THAT(
      CheckRank("F", -1, 4),
      StatusIs(kInvalid,
               "F: rank -1 out of range for world 4; ranks are 0 to 3"));
  EXPECT_THAT(CheckRank("F", 0, -7),
              StatusIs(kInvalid, "F: world_size must be > 0, got -7"));
}

TEST(ArgumentChecksTest, Sizes) {
  SHOAL_EXPECT_OK(CheckNotNegative("F", "rows", 0));
  EXPECT_THAT(CheckNotNegative("F", "rows", -1),
              StatusIs(kInvalid, "F: rows must be >= 0, got -1"));
  SHOAL_EXPECT_OK(CheckPositive("F", "heads", 1));
  EXPECT_THAT(CheckPositive("F", "heads", 0),
              StatusIs(kInvalid, "F: heads must be > 0, got 0"));
}

}  // namespace
}  // namespace shoal::internal
