// SPDX-License-Identifier: Apache-2.0
//
// How a thread passes the time between two fruitless tries: spin, yield, park.
//
// A wake-up from poll(2) costs tens of microseconds, a try costs one system
// call. So a wait first tries again at once, for about as long as a small
// message takes, if each waiting thread of the machine can have a core. Then it
// gives its core away between tries, or the ranks that have something to do
// would be starved by those that have not: with more threads than cores, and
// also where the scheduler has put two ranks on one core although another is
// idle, which it may leave so for many milliseconds. After a bounded time it
// parks, so that a rank which waits long uses no processor. docs/performance.md
// describes it.
//
// Threads: one.

#ifndef SHOAL_COMM_WAIT_STRATEGY_H_
#define SHOAL_COMM_WAIT_STRATEGY_H_

#include <chrono>

#include "shoal/base/dialect.h"

namespace shoal::internal {

class WaitStrategy {
 public:
  using Clock = std::chrono::steady_clock;

  struct Bounds {
    // How long tries follow one another without a pause.
    Clock::duration spin;
    // How long the core is yielded between tries; counted from the last
    // progress, like `spin`.
    Clock::duration yield;
  };

  // `cores_to_spare`: every waiting thread of the machine may have a core of
  // its own.
  static constexpr Bounds DefaultBounds(bool cores_to_spare) {
    return {std::chrono::microseconds(cores_to_spare ? 50 : 0),
            std::chrono::milliseconds(4)};
  }

  explicit WaitStrategy(Bounds bounds) : bounds_(bounds) {}

  // Something moved: the next wait begins anew.
  void OnProgress() { idle_ = false; }

  // Called after a try in vain, with the time of now. Returns true when the
  // caller should park; otherwise it has spent its moment and tries again.
  bool ShouldPark(Clock::time_point now);

 private:
  const Bounds bounds_;
  bool idle_ = false;
  Clock::time_point idle_since_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_WAIT_STRATEGY_H_
