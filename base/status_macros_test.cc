// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/status_macros.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

absl::Status Fail() { return absl::AbortedError("rank 3 left"); }

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return value / 2;
}

TEST(ReturnIfErrorTest, PassesTheErrorOn) {
  bool went_on = false;
  const auto function = [&]() -> absl::Status {
    SHOAL_RETURN_IF_ERROR(Fail());
    went_on = true;
    return absl::OkStatus();
  };
  EXPECT_EQ(function(), absl::AbortedError("rank 3 left"));
  EXPECT_FALSE(went_on);
}

TEST(ReturnIfErrorTest, GoesOnAfterOkAndEvaluatesOnce) {
  int evaluations = 0;
  const auto function = [&]() -> absl::StatusOr<int> {
    SHOAL_RETURN_IF_ERROR((++evaluations, absl::OkStatus()));
    return 7;
  };
  const absl::StatusOr<int> result = function();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, 7);
  EXPECT_EQ(evaluations, 1);
}

TEST(ReturnIfErrorTest, WorksInAFunctionThatReturnsAValue) {
  const auto function = []() -> absl::StatusOr<std::unique_ptr<int>> {
    SHOAL_RETURN_IF_ERROR(Fail());
    return std::make_unique<int>(1);
  };
  EXPECT_EQ(function().status(), absl::AbortedError("rank 3 left"));
}

TEST(ReturnIfErrorTest, IsOneStatement) {
  const auto function = [](bool check) -> absl::StatusOr<char> {
    if (check)
      SHOAL_RETURN_IF_ERROR(Fail());
    else
      return 'e';
    return 'x';
  };
  EXPECT_EQ(function(true).status(), absl::AbortedError("rank 3 left"));
  EXPECT_EQ(function(false).value_or('?'), 'e');
}

TEST(AssignOrReturnTest, DeclaresAndAssigns) {
  const auto quarter = [](int value) -> absl::StatusOr<int> {
    SHOAL_ASSIGN_OR_RETURN(int half, Half(value));
    SHOAL_ASSIGN_OR_RETURN(half, Half(half));
    return half;
  };
  EXPECT_EQ(quarter(12).value_or(-1), 3);
  EXPECT_EQ(quarter(6).status(), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(quarter(3).status(), absl::InvalidArgumentError("odd"));
}

TEST(AssignOrReturnTest, MovesAValueThatCannotBeCopied) {
  const auto function = []() -> absl::Status {
    SHOAL_ASSIGN_OR_RETURN(
        const std::unique_ptr<int> value,
        absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(5)));
    return *value == 5 ? absl::OkStatus() : absl::InternalError("lost");
  };
  EXPECT_EQ(function(), absl::OkStatus());
}

TEST(AssignOrReturnTest, LeavesTheTargetAloneOnError) {
  int target = 1;
  const auto function = [&]() -> absl::Status {
    SHOAL_ASSIGN_OR_RETURN(target, Half(9));
    return absl::OkStatus();
  };
  EXPECT_EQ(function(), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(target, 1);
}

}  // namespace
}  // namespace shoal
