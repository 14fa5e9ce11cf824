// SPDX-License-Identifier: Apache-2.0
//
// Time since a moment, by a clock that does not jump when somebody sets the
// machine's.
//
// A value; const methods are thread-safe.

#ifndef SHOAL_BASE_STOPWATCH_H_
#define SHOAL_BASE_STOPWATCH_H_

#include <chrono>

#include "absl/time/time.h"
#include "shoal/base/dialect.h"

namespace shoal {

class Stopwatch {
 public:
  // Starts it.
  Stopwatch() : start_(std::chrono::steady_clock::now()) {}

  absl::Duration Elapsed() const {
    return absl::FromChrono(std::chrono::steady_clock::now() - start_);
  }
  double Seconds() const { return absl::ToDoubleSeconds(Elapsed()); }

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_STOPWATCH_H_
