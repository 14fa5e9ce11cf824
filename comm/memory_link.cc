// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/memory_link.h"

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/link.h"

namespace shoal::internal {
namespace {

// Bytes from one thread to one other. The counters only grow; their difference
// is what is in the ring. All atomics are sequentially consistent: a parked
// reader relies on it (see the header's last paragraph).
class ByteRing {
 public:
  explicit ByteRing(std::size_t capacity)
      : capacity_(std::max<std::size_t>(capacity, 1)),
        bytes_(std::make_unique<char[]>(capacity_)) {}

  // Writer's thread. Returns the bytes that fitted.
  std::size_t Write(absl::Span<const struct iovec> pieces) {
    const std::uint64_t begin = written_.load(std::memory_order_relaxed);
    const std::uint64_t end = read_.load() + capacity_;
    std::uint64_t at = begin;
    for (const struct iovec& piece : pieces) {
      const std::size_t size = std::min<std::uint64_t>(piece.iov_len, end - at);
      if (size == 0) continue;
      const char* const from = static_cast<const char*>(piece.iov_base);
      const std::size_t position = at % capacity_;
      const std::size_t first = std::min(size, capacity_ - position);
      std::memcpy(&bytes_[position], from, first);
      if (first < size) std::memcpy(&bytes_[0], from + first, size - first);
      at += size;
    }
    if (at != begin) written_.store(at);
    return at - begin;
  }

  // Reader's thread. Returns the bytes that were there.
  std::size_t Read(absl::Span<const struct iovec> pieces) {
    const std::uint64_t begin = read_.load(std::memory_order_relaxed);
    const std::uint64_t end = written_.load();
    std::uint64_t at = begin;
    for (const struct iovec& piece : pieces) {
      const std::size_t size = std::min<std::uint64_t>(piece.iov_len, end - at);
      if (size == 0) continue;
      char* const to = static_cast<char*>(piece.iov_base);
      const std::size_t position = at % capacity_;
      const std::size_t first = std::min(size, capacity_ - position);
      std::memcpy(to, &bytes_[position], first);
      if (first < size) std::memcpy(to + first, &bytes_[0], size - first);
      at += size;
    }
    if (at != begin) read_.store(at);
    return at - begin;
  }

  // Writer's thread, or its end's destructor: nothing more will be written.
  void Finish() { finished_.store(true); }
  bool finished() const { return finished_.load(); }

  // Reader's end's destructor: nothing more will be read.
  void Abandon() { abandoned_.store(true); }
  bool abandoned() const { return abandoned_.load(); }

 private:
  const std::size_t capacity_;
  const std::unique_ptr<char[]> bytes_;
  // Apart, so that the two threads do not fight for one cache line.
  alignas(64) std::atomic<std::uint64_t> written_{0};
  std::atomic<bool> finished_{false};
  alignas(64) std::atomic<std::uint64_t> read_{0};
  std::atomic<bool> abandoned_{false};
};

struct Wakeup {
  Mutex mutex;
  std::function<void()> call ABSL_GUARDED_BY(mutex);
};

bool AsksForNothing(absl::Span<const struct iovec> pieces) {
  return std::all_of(pieces.begin(), pieces.end(),
                     [](const struct iovec& p) { return p.iov_len == 0; });
}

}  // namespace

struct MemoryLink::Shared {
  explicit Shared(std::size_t capacity)
      : written_by{ByteRing(capacity), ByteRing(capacity)} {}

  ByteRing written_by[2];  // index: the writing end
  Wakeup wakeup_of[2];     // index: the end that is woken
};

MemoryLink::MemoryLink(std::shared_ptr<Shared> shared, int end)
    : shared_(std::move(shared)), end_(end) {}

MemoryLink::~MemoryLink() {
  SetWakeup(nullptr);
  shared_->written_by[end_].Finish();
  shared_->written_by[1 - end_].Abandon();
  WakePeer();
}

void MemoryLink::SetWakeup(std::function<void()> wakeup) {
  MutexLock lock(&shared_->wakeup_of[end_].mutex);
  shared_->wakeup_of[end_].call = std::move(wakeup);
}

void MemoryLink::WakePeer() {
  Wakeup& wakeup = shared_->wakeup_of[1 - end_];
  MutexLock lock(&wakeup.mutex);
  if (wakeup.call) wakeup.call();
}

LinkResult MemoryLink::TryWrite(absl::Span<const struct iovec> pieces) {
  ByteRing& ring = shared_->written_by[end_];
  if (ring.abandoned() || ring.finished()) {
    wrote_to_dead_end_ = ring.abandoned();
    return {LinkState::kEnded, 0};
  }
  const std::size_t bytes = ring.Write(pieces);
  if (bytes > 0) {
    WakePeer();
    return {LinkState::kOk, bytes};
  }
  return {AsksForNothing(pieces) ? LinkState::kOk : LinkState::kWouldBlock, 0};
}

LinkResult MemoryLink::TryRead(absl::Span<const struct iovec> pieces) {
  ByteRing& ring = shared_->written_by[1 - end_];
  // Asked first: what was written before the end is there by then.
  const bool finished = ring.finished();
  const std::size_t bytes = ring.Read(pieces);
  if (bytes > 0) {
    WakePeer();
    return {LinkState::kOk, bytes};
  }
  if (AsksForNothing(pieces)) return {LinkState::kOk, 0};
  return {finished ? LinkState::kEnded : LinkState::kWouldBlock, 0};
}

void MemoryLink::ShutdownWrite() {
  shared_->written_by[end_].Finish();
  WakePeer();
}

bool MemoryLink::PeerHasEnded() const {
  return shared_->written_by[1 - end_].finished();
}

std::string MemoryLink::end_reason() const {
  return wrote_to_dead_end_ ? "the peer's end is gone" : "";
}

std::pair<std::unique_ptr<MemoryLink>, std::unique_ptr<MemoryLink>>
MakeMemoryLinkPair(const MemoryLinkOptions& options) {
  auto shared = std::make_shared<MemoryLink::Shared>(options.capacity_bytes);
  return {std::unique_ptr<MemoryLink>(new MemoryLink(shared, 0)),
          std::unique_ptr<MemoryLink>(new MemoryLink(shared, 1))};
}

}  // namespace shoal::internal
