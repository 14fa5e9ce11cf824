// SPDX-License-Identifier: Apache-2.0
//
// Random worlds of up to 8 ranks. `--seeds=N` runs N of them, from `--first`
// on; `--seed=S` repeats the one that failed, and says what it was.

#include <cstdint>
#include <iostream>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/engine_simulator.h"

ABSL_FLAG(std::int64_t, seeds, 1000, "how many seeds to run");
ABSL_FLAG(std::int64_t, first, 1, "the first seed");
ABSL_FLAG(std::int64_t, seed, -1, "run this seed only");

namespace shoal::internal {
namespace {

TEST(EngineRandomTest, EverySeedEndsWell) {
  if (const std::int64_t seed = absl::GetFlag(FLAGS_seed); seed >= 0) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const RandomSummary summary, RunRandom(seed));
    std::cout << summary.plan.ToString() << "\n"
              << summary.events << " events; " << summary.finished
              << " ranks finished, " << summary.failed << " failed, "
              << summary.dead << " died" << std::endl;
    return;
  }
  const std::int64_t seeds = CasesToTry(absl::GetFlag(FLAGS_seeds));
  const std::int64_t first = absl::GetFlag(FLAGS_first);
  std::int64_t disagreed = 0;
  std::int64_t mismatch_found = 0;
  std::int64_t waiting = 0;
  std::int64_t failed = 0;
  std::int64_t finished = 0;
  for (std::int64_t seed = first; seed < first + seeds; ++seed) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const RandomSummary summary, RunRandom(seed));
    disagreed += summary.disagreed;
    mismatch_found += summary.disagreed && summary.mismatch_found;
    waiting += summary.waiting;
    failed += summary.failed;
    finished += summary.finished;
  }
  std::cout << seeds << " seeds: " << finished << " ranks finished, " << failed
            << " failed; " << disagreed << " worlds disagreed, of them "
            << mismatch_found << " found it out and " << waiting
            << " ended in waiting" << std::endl;
  if (seeds < 1000) return;
  // The seeds reach what they are meant for.
  EXPECT_GT(finished, seeds);
  EXPECT_GT(failed, seeds / 10);
  EXPECT_GT(disagreed, seeds / 10);
  EXPECT_GT(mismatch_found, disagreed / 2);
  EXPECT_LT(waiting, disagreed / 10);
}

TEST(EngineRandomTest, ASeedGivesTheSameRunAgain) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const RandomSummary once, RunRandom(seed));
    SHOAL_ASSERT_OK_AND_ASSIGN(const RandomSummary again, RunRandom(seed));
    EXPECT_EQ(once.plan.ToString(), again.plan.ToString());
    EXPECT_EQ(once.events, again.events);
    EXPECT_EQ(once.finished, again.finished);
  }
}

}  // namespace
}  // namespace shoal::internal

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  return RUN_ALL_TESTS();
}
