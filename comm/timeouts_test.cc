// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/timeouts.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(TimeoutsTest, DefaultsAreGood) {
  SHOAL_EXPECT_OK(CheckTimeouts(Timeouts()));
}

TEST(TimeoutsTest, EachMustBePositive) {
  const struct {
    absl::Duration Timeouts::*member;
    const char* name;
    bool may_be_infinite;
  } kMembers[] = {{&Timeouts::join, "join", true},
                  {&Timeouts::operation, "operation", true},
                  {&Timeouts::grace, "grace", false},
                  {&Timeouts::answer_window, "answer window", false},
                  {&Timeouts::close, "close", false}};
  for (const auto& one : kMembers) {
    for (const absl::Duration bad :
         {absl::ZeroDuration(), absl::Seconds(-1), -absl::InfiniteDuration()}) {
      Timeouts timeouts;
      timeouts.*one.member = bad;
      EXPECT_THAT(
          CheckTimeouts(timeouts),
          StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(one.name)));
    }
    Timeouts timeouts;
    timeouts.*one.member = absl::InfiniteDuration();
    EXPECT_EQ(CheckTimeouts(timeouts).ok(), one.may_be_infinite) << one.name;
  }
}

}  // namespace
}  // namespace shoal
