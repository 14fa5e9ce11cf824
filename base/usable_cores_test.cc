// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/usable_cores.h"

#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(UsableCoresTest, FollowsTheAffinity) {
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(),
            static_cast<int>(std::thread::hardware_concurrency()));
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(UsableCores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace shoal
