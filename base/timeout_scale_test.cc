// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/timeout_scale.h"

#include <stdlib.h>

#include "gtest/gtest.h"

namespace shoal {
namespace {

void SetScale(const char* text) {
  ASSERT_EQ(setenv("SHOAL_TEST_TIMEOUT_SCALE", text, /*overwrite=*/1), 0);
}

TEST(TimeoutScaleTest, IsOneUnlessSetToMore) {
  ASSERT_EQ(unsetenv("SHOAL_TEST_TIMEOUT_SCALE"), 0);
  EXPECT_EQ(TimeoutScale(), 1);
  for (const char* text : {"", "many", "0", "-3", "0.5", "nan"}) {
    SetScale(text);
    EXPECT_GE(TimeoutScale(), 1) << text;
    EXPECT_EQ(FewerIfSlow(7), 7) << text;
  }
}

TEST(TimeoutScaleTest, IsWhatTheEnvironmentSays) {
  SetScale("2.5");
  EXPECT_EQ(TimeoutScale(), 2.5);
  SetScale("1e9");
  EXPECT_EQ(TimeoutScale(), 1000);
}

TEST(TimeoutScaleTest, SlowBuildsGetFewerCasesButSome) {
  SetScale("10");
  EXPECT_EQ(FewerIfSlow(4000), 400);
  EXPECT_EQ(FewerIfSlow(3), 1);
  EXPECT_EQ(FewerIfSlow(0), 0);
}

TEST(CaseSamplerTest, TakesAllOrEveryTwentieth) {
  for (const char* scale : {"1", "10"}) {
    SetScale(scale);
    CaseSampler sampler;
    int taken = 0;
    for (int i = 0; i < 80; ++i) taken += sampler.Take() ? 1 : 0;
    EXPECT_EQ(taken, TimeoutScale() > 1 ? 4 : 80);
  }
}

}  // namespace
}  // namespace shoal
