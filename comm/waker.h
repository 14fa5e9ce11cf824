// SPDX-License-Identifier: Apache-2.0
//
// Wakes a thread that waits in poll(2), from any other thread.
//
// The waiting side calls `PrepareToPark`, looks once more whether there is
// something to do, polls `descriptor()` for reading together with whatever else
// it waits for, and calls `Unpark`. `Notify` costs one atomic operation while
// nobody is parked. Notifications are never lost; they may be spurious.
//
// `Notify` is thread-safe; the rest belongs to the one waiting thread.

#ifndef SHOAL_COMM_WAKER_H_
#define SHOAL_COMM_WAKER_H_

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

class Waker {
 public:
  // `RESOURCE_EXHAUSTED` when the process has no descriptor left.
  static absl::StatusOr<std::unique_ptr<Waker>> Create();
  ~Waker();

  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  void Notify();

  void PrepareToPark();
  int descriptor() const { return descriptor_; }
  void Unpark();

 private:
  explicit Waker(int descriptor) : descriptor_(descriptor) {}

  const int descriptor_;
  std::atomic<bool> parked_{false};
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_WAKER_H_
