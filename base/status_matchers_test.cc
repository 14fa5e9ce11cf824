// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/status_matchers.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointee;

const absl::Status& PeerLost() {
  static const absl::Status& status =
      *new absl::Status(absl::StatusCode::kUnavailable, "rank 3 left");
  return status;
}

TEST(IsOkTest, SeesStatusAndStatusOr) {
  EXPECT_THAT(absl::OkStatus(), IsOk());
  EXPECT_THAT(absl::StatusOr<int>(1), IsOk());
  EXPECT_THAT(absl::StatusOr<std::unique_ptr<int>>(nullptr), IsOk());
  EXPECT_THAT(PeerLost(), Not(IsOk()));
  EXPECT_THAT(absl::StatusOr<int>(PeerLost()), Not(IsOk()));
}

TEST(StatusIsTest, ComparesCodeAndMessage) {
  EXPECT_THAT(PeerLost(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(PeerLost(),
              StatusIs(absl::StatusCode::kUnavailable, "rank 3 left"));
  EXPECT_THAT(absl::StatusOr<std::string>(PeerLost()),
              StatusIs(Not(absl::StatusCode::kOk), HasSubstr("rank 3")));
  EXPECT_THAT(PeerLost(), Not(StatusIs(absl::StatusCode::kAborted)));
  EXPECT_THAT(PeerLost(), Not(StatusIs(absl::StatusCode::kUnavailable,
                                       HasSubstr("rank 4"))));
}

TEST(IsOkAndHoldsTest, LooksAtTheValue) {
  EXPECT_THAT(absl::StatusOr<int>(4), IsOkAndHolds(4));
  EXPECT_THAT(absl::StatusOr<int>(4), IsOkAndHolds(Gt(3)));
  EXPECT_THAT(absl::StatusOr<int>(4), Not(IsOkAndHolds(5)));
  EXPECT_THAT(absl::StatusOr<int>(PeerLost()), Not(IsOkAndHolds(4)));
  EXPECT_THAT(absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(2)),
              IsOkAndHolds(Pointee(2)));
}

TEST(AssertionsTest, PassWhenOk) {
  SHOAL_EXPECT_OK(absl::OkStatus());
  SHOAL_ASSERT_OK(absl::StatusOr<int>(1));
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<int> value,
      absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(2)));
  EXPECT_EQ(*value, 2);
}

TEST(AssertionsTest, FailuresShowTheStatus) {
  EXPECT_NONFATAL_FAILURE(SHOAL_EXPECT_OK(PeerLost()), "rank 3 left");
  EXPECT_FATAL_FAILURE(SHOAL_ASSERT_OK(PeerLost()), "rank 3 left");
  EXPECT_FATAL_FAILURE(
      {
        SHOAL_ASSERT_OK_AND_ASSIGN(const int value,
                                   absl::StatusOr<int>(PeerLost()));
        static_cast<void>(value);
      },
      "rank 3 left");
}

TEST(StatusIsTest, DescribesItself) {
  const testing::Matcher<absl::Status> matcher =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 3"));
  EXPECT_THAT(testing::DescribeMatcher<absl::Status>(matcher),
              HasSubstr("a message that has substring \"rank 3\""));
  EXPECT_THAT(testing::DescribeMatcher<absl::Status>(matcher, true),
              HasSubstr("a message that has no substring \"rank 3\""));
}

}  // namespace
}  // namespace shoal
