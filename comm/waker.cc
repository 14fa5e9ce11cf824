// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal::internal {

// Why no notification is lost. Every access to `parked_` is a read-modify-write
// with acquire and release, so that all of them stand in one order, and each
// sees everything that was written before those that precede it. Let a notifier
// publish something and call `Notify`, while the waiter calls `PrepareToPark`
// and then looks for it:
//
// - The notifier's exchange comes first. Then the waiter's exchange has
//   acquired it, and the waiter's look finds what was published.
// - The waiter's exchange comes first. Then the notifier finds `true` and makes
//   the descriptor readable, and poll(2) returns; or another notifier has found
//   `true` in between, which makes it readable just the same. In both cases the
//   waiter's `Unpark` or next `PrepareToPark` comes after the notifier's
//   exchange, and the look after it finds what was published.
//
// A notifier that has taken `true` may be slow to write, and write only after
// the waiter has left for another reason. The next park then ends at once: that
// is the spurious wake-up of the contract. `Unpark` reads in every case, so
// that one such write cannot keep the descriptor readable for ever.
//
// Plain loads and stores with fences would serve as well, but ThreadSanitizer
// does not know fences.

absl::StatusOr<std::unique_ptr<Waker>> Waker::Create() {
  const int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0) {
    return absl::ErrnoToStatus(
        errno,
        "cannot create an eventfd to wake a waiting thread; if descriptors "
        "have run out, raise the limit (ulimit -n)");
  }
  return absl::WrapUnique(new Waker(descriptor));
}

Waker::~Waker() { close(descriptor_); }

void Waker::Notify() {
  if (!parked_.exchange(false, std::memory_order_acq_rel)) return;
  // Cannot fail in a way that matters: with EAGAIN the counter is at its
  // maximum, and the descriptor readable.
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof one);
}

void Waker::PrepareToPark() {
  parked_.exchange(true, std::memory_order_acq_rel);
}

void Waker::Unpark() {
  parked_.exchange(false, std::memory_order_acq_rel);
  std::uint64_t count;
  [[maybe_unused]] const ssize_t bytes =
      read(descriptor_, &count, sizeof count);  // sets the counter to 0
}

}  // namespace shoal::internal
