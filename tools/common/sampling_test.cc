// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/sampling.h"

#include "gtest/gtest.h"

namespace shoal::tools {
namespace {

TEST(IterationsInBudgetTest, KeepsToItsBudget) {
  EXPECT_EQ(IterationsInBudget(0, 0.2, 200), 200);
  EXPECT_EQ(IterationsInBudget(1e-6, 0.2, 200), 200);
  EXPECT_EQ(IterationsInBudget(0.01, 0.2, 200), 20);
  EXPECT_EQ(IterationsInBudget(0.15, 0.2, 200), 3);
  EXPECT_EQ(IterationsInBudget(100, 0.2, 200), 1);
}

TEST(MedianTest, IsInTheMiddle) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 2}), 2);
  EXPECT_EQ(Median({9, 1, 2, 4}), 3);
}

}  // namespace
}  // namespace shoal::tools
