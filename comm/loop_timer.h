// SPDX-License-Identifier: Apache-2.0
//
// Durations for Asio's timers.
//
// Thread-safe.

#ifndef SHOAL_COMM_LOOP_TIMER_H_
#define SHOAL_COMM_LOOP_TIMER_H_

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

// Infinity, and whatever else would overflow the clock, becomes a year.
inline std::chrono::nanoseconds TimerDuration(absl::Duration duration) {
  return absl::ToChronoNanoseconds(
      std::clamp(duration, absl::ZeroDuration(), absl::Hours(24 * 365)));
}

}  // namespace shoal::internal

#endif  // SHOAL_COMM_LOOP_TIMER_H_
