// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/wait_strategy.h"

#include <chrono>

#include "gtest/gtest.h"

namespace shoal::internal {
namespace {

using std::chrono::milliseconds;

// The strategy never reads the clock, so that the tests can be the clock.
constexpr WaitStrategy::Clock::time_point kStart{std::chrono::hours(1)};

TEST(WaitStrategyTest, ParksOnlyAfterItsBounds) {
  WaitStrategy wait({milliseconds(2), milliseconds(4)});
  EXPECT_FALSE(wait.ShouldPark(kStart));
  EXPECT_FALSE(wait.ShouldPark(kStart + milliseconds(1)));
  EXPECT_FALSE(wait.ShouldPark(kStart + milliseconds(3)));
  EXPECT_TRUE(wait.ShouldPark(kStart + milliseconds(4)));
  EXPECT_TRUE(wait.ShouldPark(kStart + milliseconds(50)));
}

TEST(WaitStrategyTest, ProgressBeginsTheWaitAnew) {
  WaitStrategy wait({milliseconds(2), milliseconds(4)});
  EXPECT_FALSE(wait.ShouldPark(kStart));
  EXPECT_TRUE(wait.ShouldPark(kStart + milliseconds(9)));
  wait.OnProgress();
  EXPECT_FALSE(wait.ShouldPark(kStart + milliseconds(10)));
  EXPECT_FALSE(wait.ShouldPark(kStart + milliseconds(13)));
  EXPECT_TRUE(wait.ShouldPark(kStart + milliseconds(14)));
}

TEST(WaitStrategyTest, ZeroBoundsParkAtOnce) {
  WaitStrategy wait({milliseconds(0), milliseconds(0)});
  EXPECT_TRUE(wait.ShouldPark(kStart));
}

TEST(WaitStrategyTest, SpinsOnlyWithCoresToSpare) {
  EXPECT_GT(WaitStrategy::DefaultBounds(true).spin.count(), 0);
  EXPECT_EQ(WaitStrategy::DefaultBounds(false).spin.count(), 0);
  EXPECT_GT(WaitStrategy::DefaultBounds(false).yield.count(), 0);
}

}  // namespace
}  // namespace shoal::internal
