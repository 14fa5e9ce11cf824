// SPDX-License-Identifier: Apache-2.0
//
// A mutex, its scoped lock and its condition variable: those of the standard
// library, with Abseil's thread annotations, so that clang's -Wthread-safety
// checks ABSL_GUARDED_BY and its siblings.
//
// Why not absl::Mutex: an Abseil that was not built with ThreadSanitizer, such
// as a distribution's, hides its locking from it, and every access that the
// lock protects is reported as a race. ThreadSanitizer knows std::mutex.
//
// All three may be used from any thread, and must outlive every call on them.
// They are neither copied nor moved. No call fails.

#ifndef SHOAL_BASE_MUTEX_H_
#define SHOAL_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "shoal/base/dialect.h"

namespace shoal {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Blocks until the calling thread holds the mutex.
  // REQUIRES: the calling thread does not hold it already.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }

  // REQUIRES: the calling thread holds the mutex.
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

  // Returns whether the calling thread now holds the mutex. Never blocks; may
  // return false although no other thread holds it.
  // REQUIRES: the calling thread does not hold it already.
  [[nodiscard]] bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return mutex_.try_lock();
  }

  // Tells the compiler, and does not check, that the mutex is held: for a
  // callback that runs under a lock taken where the compiler cannot see it.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;

  std::mutex mutex_;
};

// Holds a mutex from construction to destruction.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// A condition variable. A wait releases the mutex while it blocks and holds it
// again when it returns. It may return without a signal: test the condition in
// a loop. One condition variable goes with one mutex.
class CondVar {
 public:
  using Clock = std::chrono::steady_clock;

  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Blocks until signalled. A wait for anything that may never come belongs in
  // WaitUntil.
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Adopted lock(mutex);
    condition_.wait(lock.lock);
  }

  // Blocks until signalled or until `deadline`. Returns false once the deadline
  // has passed, true otherwise.
  bool WaitUntil(Mutex* mutex, Clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Adopted lock(mutex);
    return condition_.wait_until(lock.lock, deadline) ==
           std::cv_status::no_timeout;
  }

  // Blocks until signalled or for `timeout`; no more than that, and not at all
  // where it is zero or negative. Returns false once it has passed, true
  // otherwise. In a loop, use WaitUntil, whose bound does not move.
  bool WaitFor(Mutex* mutex, Clock::duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return WaitUntil(mutex, Clock::now() + timeout);
  }

  // Wakes one waiting thread, if any.
  void Signal() { condition_.notify_one(); }

  // Wakes every waiting thread.
  void SignalAll() { condition_.notify_all(); }

 private:
  // Lends a mutex that the caller holds to the standard library, and leaves it
  // held.
  struct Adopted {
    explicit Adopted(Mutex* mutex) : lock(mutex->mutex_, std::adopt_lock) {}
    ~Adopted() { lock.release(); }

    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_MUTEX_H_
