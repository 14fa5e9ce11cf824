// SPDX-License-Identifier: Apache-2.0
//
// The time by which waits are measured: it never jumps when somebody sets the
// machine's clock.
//
// Thread-safe.

#ifndef SHOAL_COMM_MONOTONIC_CLOCK_H_
#define SHOAL_COMM_MONOTONIC_CLOCK_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

// An absl::Time for the sake of its arithmetic and of infinity; it has nothing
// to do with the time of day.
inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// The same clock's count, for what is measured and not waited for.
inline std::int64_t MonotonicNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Time-outs may be infinite, or too long for the clock: a year will do.
inline std::chrono::steady_clock::duration ToClockDuration(
    absl::Duration duration) {
  return absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24 * 365)));
}

}  // namespace shoal::internal

#endif  // SHOAL_COMM_MONOTONIC_CLOCK_H_
