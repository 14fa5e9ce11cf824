// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/wait_strategy.h"

#include <sched.h>

namespace shoal::internal {

bool WaitStrategy::ShouldPark(Clock::time_point now) {
  if (!idle_) {
    idle_ = true;
    idle_since_ = now;
  }
  const Clock::duration waited = now - idle_since_;
  if (waited < bounds_.spin) return false;
  if (waited >= bounds_.yield) return true;
  sched_yield();
  return false;
}

}  // namespace shoal::internal
