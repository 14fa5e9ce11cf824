// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/allocation_counter.h"

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(AllocationCounterTest, CountsEachOnceOnEveryThread) {
  std::vector<std::unique_ptr<int>> kept(30);
  const std::int64_t before = Allocations();
  for (int i = 0; i < 10; ++i) kept[i] = std::make_unique<int>(i);
  EXPECT_EQ(Allocations() - before, 10);
  kept.resize(5);
  EXPECT_EQ(Allocations() - before, 10) << "what is freed stays counted";
  kept.resize(30);
  std::int64_t elsewhere = 0;
  std::thread([&] {
    const std::int64_t start = Allocations();
    for (int i = 10; i < 30; ++i) kept[i] = std::make_unique<int>(i);
    elsewhere = Allocations() - start;
  }).join();
  EXPECT_EQ(elsewhere, 20);
}

}  // namespace
}  // namespace shoal
