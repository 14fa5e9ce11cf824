// SPDX-License-Identifier: Apache-2.0
//
// Runs a random simulation seed by seed. A failure prints its seed; the
// environment variable SHOAL_SEED runs that one alone, SHOAL_SEEDS so many.
//
// For tests.

#ifndef SHOAL_COMM_SIMULATION_SEEDS_H_
#define SHOAL_COMM_SIMULATION_SEEDS_H_

#include <cstdlib>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "gtest/gtest.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

// The integer that the environment has for `name`, or `otherwise`.
inline int IntFromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// Calls `simulate` with the seeds from 1 to `count`, until one fails the test.
inline void RunSeeds(int count, absl::FunctionRef<void(int seed)> simulate) {
  const int only = IntFromEnvironment("SHOAL_SEED", -1);
  const int first = only >= 0 ? only : 1;
  const int last = only >= 0 ? only : IntFromEnvironment("SHOAL_SEEDS", count);
  for (int seed = first; seed <= last; ++seed) {
    simulate(seed);
    if (testing::Test::HasFailure()) {
      FAIL() << "seed " << seed << ": repeat with SHOAL_SEED=" << seed;
    }
  }
}

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SIMULATION_SEEDS_H_
