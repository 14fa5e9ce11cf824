// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/timeout_scale.h"

#include <stdlib.h>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr char kScale[] = "SHOAL_TEST_TIMEOUT_SCALE";
constexpr char kDivisor[] = "SHOAL_TEST_CASE_DIVISOR";

void Set(const char* variable, const char* text) {
  ASSERT_EQ(setenv(variable, text, /*overwrite=*/1), 0);
}

TEST(TimeoutScaleTest, IsOneUnlessSetToMore) {
  ASSERT_EQ(unsetenv(kScale), 0);
  EXPECT_EQ(TimeoutScale(), 1);
  for (const char* text : {"", "many", "0", "-3", "0.5", "nan"}) {
    Set(kScale, text);
    EXPECT_EQ(TimeoutScale(), 1) << text;
  }
}

TEST(TimeoutScaleTest, IsWhatTheEnvironmentSays) {
  Set(kScale, "2.5");
  EXPECT_EQ(TimeoutScale(), 2.5);
  Set(kScale, "1e9");
  EXPECT_EQ(TimeoutScale(), 1000);
}

TEST(CasesToTryTest, AreAllUnlessFewerAreAskedFor) {
  ASSERT_EQ(unsetenv(kDivisor), 0);
  EXPECT_FALSE(TriesFewerCases());
  EXPECT_EQ(CasesToTry(7), 7);
  // A slow build alone is no reason.
  Set(kScale, "10");
  EXPECT_FALSE(TriesFewerCases());
  EXPECT_EQ(CasesToTry(7), 7);
}

TEST(CasesToTryTest, AreFewerThenButSome) {
  Set(kDivisor, "10");
  EXPECT_TRUE(TriesFewerCases());
  EXPECT_EQ(CasesToTry(4000), 400);
  EXPECT_EQ(CasesToTry(3), 1);
  EXPECT_EQ(CasesToTry(0), 0);
}

int CountTaken() {
  CaseSampler sampler;
  int taken = 0;
  for (int i = 0; i < 80; ++i) taken += sampler.Take() ? 1 : 0;
  return taken;
}

TEST(CaseSamplerTest, TakesFewerTheSlowerTheBuild) {
  ASSERT_EQ(unsetenv(kDivisor), 0);
  Set(kScale, "1");
  EXPECT_EQ(CountTaken(), 80);
  Set(kScale, "10");
  EXPECT_EQ(CountTaken(), 12);
  Set(kDivisor, "10");
  EXPECT_EQ(CountTaken(), 5);
}

}  // namespace
}  // namespace shoal
