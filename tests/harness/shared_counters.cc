// SPDX-License-Identifier: Apache-2.0

#include "shoal/tests/harness/shared_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/stopwatch.h"
#include "shoal/base/timeout_scale.h"

namespace shoal::tests {

absl::StatusOr<SharedCounters> SharedCounters::Open(const std::string& path) {
  static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
                sizeof(std::atomic<std::int64_t>) == sizeof(std::int64_t));
  constexpr std::size_t kBytes = kCount * sizeof(std::int64_t);
  const auto error = [&path] {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot share ", path));
  };
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return error();
  // Whoever comes first makes the zeros; later ones change nothing.
  const bool sized = ftruncate(descriptor, kBytes) == 0;
  void* memory = sized ? mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED, descriptor, 0)
                       : MAP_FAILED;
  const absl::Status status = memory == MAP_FAILED ? error() : absl::OkStatus();
  close(descriptor);
  if (!status.ok()) return status;
  return SharedCounters(static_cast<std::atomic<std::int64_t>*>(memory));
}

absl::Status SharedCounters::AwaitAtLeast(int i, std::int64_t value) const {
  const absl::Duration limit = absl::Minutes(1) * TimeoutScale();
  const Stopwatch stopwatch;
  while ((*this)[i].load() < value) {
    if (stopwatch.Elapsed() > limit) {
      return absl::DeadlineExceededError(
          absl::StrCat("counter ", i, " is ", (*this)[i].load(), " and not ",
                       value, " after ", absl::FormatDuration(limit)));
    }
    const struct timespec pause = {0, 500'000};
    nanosleep(&pause, nullptr);
  }
  return absl::OkStatus();
}

}  // namespace shoal::tests
