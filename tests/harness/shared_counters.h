// SPDX-License-Identifier: Apache-2.0
//
// Counters that all ranks of a world see, in a file that they map: by them a
// test proves what happened before what, without a clock and without the
// communicator under test.
//
// Thread-safe, and usable in a forked child.

#ifndef SHOAL_TESTS_HARNESS_SHARED_COUNTERS_H_
#define SHOAL_TESTS_HARNESS_SHARED_COUNTERS_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shoal/base/dialect.h"

namespace shoal::tests {

class SharedCounters {
 public:
  static constexpr int kCount = 256;

  // All are 0 at first. `path` is RankContext::shared_file.
  static absl::StatusOr<SharedCounters> Open(const std::string& path);

  // Stays mapped until the process ends.
  std::atomic<std::int64_t>& operator[](int i) const { return counters_[i]; }

  // Waits until a counter is at least `value`, for a minute (scaled) at most.
  absl::Status AwaitAtLeast(int i, std::int64_t value) const;

 private:
  explicit SharedCounters(std::atomic<std::int64_t>* counters)
      : counters_(counters) {}

  std::atomic<std::int64_t>* counters_;
};

}  // namespace shoal::tests

#endif  // SHOAL_TESTS_HARNESS_SHARED_COUNTERS_H_
