// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "shoal/base/mutex.h"

namespace shoal::internal {
namespace {

constexpr int kBitsPerWord = 64;
// The default of the kernel's own limit (fs.nr_open). Pages of the table that
// no descriptor touches take no memory.
constexpr int kMaxDescriptors = 1 << 20;

// One bit for each descriptor that comm owns. Atomic because the child handler
// runs in a process whose other threads have vanished in mid-step.
std::atomic<std::uint64_t> table[kMaxDescriptors / kBitsPerWord];
// One more than the largest index of a word that was ever used.
std::atomic<int> words_used{0};
std::atomic<std::uint64_t> generation{0};

// Held while a descriptor is opened and entered, left and closed, and during a
// fork. Never destroyed: descriptors may be closed by static destructors.
Mutex& TableMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { TableMutex().Lock(); }

void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  TableMutex().Unlock();
}

void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const int saved_errno = errno;
  const int words = words_used.load(std::memory_order_relaxed);
  for (int i = 0; i < words; ++i) {
    std::uint64_t word = table[i].exchange(0, std::memory_order_relaxed);
    while (word != 0) {
      const int bit = std::countr_zero(word);
      word &= word - 1;
      close(i * kBitsPerWord + bit);
    }
  }
  generation.fetch_add(1, std::memory_order_relaxed);
  TableMutex().Unlock();
  errno = saved_errno;
}

void InstallHandlersOnce() {
  static const int installed =
      pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild);
  static_cast<void>(installed);
}

std::uint64_t BitOf(int descriptor) {
  return std::uint64_t{1} << (descriptor % kBitsPerWord);
}

void Enter(int descriptor) {
  const int word = descriptor / kBitsPerWord;
  table[word].fetch_or(BitOf(descriptor), std::memory_order_relaxed);
  if (words_used.load(std::memory_order_relaxed) <= word) {
    words_used.store(word + 1, std::memory_order_relaxed);
  }
}

// Returns whether it was there.
bool Leave(int descriptor) {
  const std::uint64_t bit = BitOf(descriptor);
  return (table[descriptor / kBitsPerWord].fetch_and(
              ~bit, std::memory_order_relaxed) &
          bit) != 0;
}

}  // namespace

GuardedDescriptor GuardedDescriptor::Open(absl::FunctionRef<int()> open) {
  InstallHandlersOnce();
  MutexLock lock(&TableMutex());
  int descriptor = open();
  if (descriptor >= kMaxDescriptors) {  // just opened, so ours to close
    close(descriptor);
    errno = EMFILE;
    descriptor = -1;
  }
  if (descriptor >= 0) Enter(descriptor);
  return GuardedDescriptor(descriptor);
}

GuardedDescriptor GuardedDescriptor::Adopt(int descriptor) {
  return Open([descriptor] {
    if (descriptor >= kMaxDescriptors) {
      errno = EMFILE;
      return -1;
    }
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags < 0) return -1;
    if (fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC) < 0) return -1;
    return descriptor;
  });
}

GuardedDescriptor::GuardedDescriptor(GuardedDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

GuardedDescriptor& GuardedDescriptor::operator=(
    GuardedDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void GuardedDescriptor::Close() {
  if (descriptor_ < 0) return;
  MutexLock lock(&TableMutex());
  const int descriptor = std::exchange(descriptor_, -1);
  // EINTR included, Linux has freed the number when close returns.
  if (Leave(descriptor)) close(descriptor);
}

int GuardedDescriptor::Lend() { return std::exchange(descriptor_, -1); }

GuardedDescriptor GuardedDescriptor::Reclaim(int descriptor) {
  return GuardedDescriptor(descriptor);
}

int GuardedDescriptor::Release() {
  if (descriptor_ < 0) return -1;
  MutexLock lock(&TableMutex());
  Leave(descriptor_);
  return std::exchange(descriptor_, -1);
}

std::uint64_t ForkGeneration() {
  InstallHandlersOnce();
  return generation.load(std::memory_order_relaxed);
}

void AbandonThread(std::thread thread) {
  // std::thread's destructor would end the process; a union runs none.
  union NeverDestroyed {
    explicit NeverDestroyed(std::thread&& t) : thread(std::move(t)) {}
    ~NeverDestroyed() {}
    std::thread thread;
  };
  NeverDestroyed abandoned(std::move(thread));
}

int CountGuardedDescriptors() {
  MutexLock lock(&TableMutex());
  int count = 0;
  const int words = words_used.load(std::memory_order_relaxed);
  for (int i = 0; i < words; ++i) {
    count += std::popcount(table[i].load(std::memory_order_relaxed));
  }
  return count;
}

}  // namespace shoal::internal
