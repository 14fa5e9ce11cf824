// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

// A value and the lock that guards it, as production code declares them.
class Counter {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++value_;
    changed_.SignalAll();
  }

  // Returns whether the counter reached `value` before `deadline`.
  bool AwaitAtLeast(int value, CondVar::Clock::time_point deadline) {
    MutexLock lock(&mutex_);
    while (value_ < value) {
      if (!changed_.WaitUntil(&mutex_, deadline)) return value_ >= value;
    }
    return true;
  }

  int value() {
    MutexLock lock(&mutex_);
    return value_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int value_ ABSL_GUARDED_BY(mutex_) = 0;
};

bool AnotherThreadCanLock(Mutex* mutex) {
  bool acquired = false;
  std::thread([&] {
    if (mutex->TryLock()) {
      acquired = true;
      mutex->Unlock();
    }
  }).join();
  return acquired;
}

TEST(MutexTest, NoIncrementIsLost) {
  constexpr int kThreads = 4;
  constexpr int kAdditions = 10000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < kAdditions; ++i) counter.Add();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), kThreads * kAdditions);
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mutex;
  MutexLock lock(&mutex);
  EXPECT_FALSE(AnotherThreadCanLock(&mutex));
}

TEST(MutexTest, LockIsReleasedAtEndOfScope) {
  Mutex mutex;
  { MutexLock lock(&mutex); }
  EXPECT_TRUE(AnotherThreadCanLock(&mutex));
}

TEST(CondVarTest, WaitUntilSeesWhatWasSignalled) {
  Counter counter;
  std::thread adder([&counter] {
    for (int i = 0; i < 3; ++i) counter.Add();
  });
  EXPECT_TRUE(counter.AwaitAtLeast(3, CondVar::Clock::now() + minutes(1)));
  adder.join();
}

TEST(CondVarTest, WaitWakesOnSignal) {
  Mutex mutex;
  CondVar condition;
  bool ready = false;
  std::thread signaller([&] {
    MutexLock lock(&mutex);
    ready = true;
    condition.Signal();
  });
  {
    MutexLock lock(&mutex);
    while (!ready) condition.Wait(&mutex);
    EXPECT_TRUE(ready);
  }
  signaller.join();
}

TEST(CondVarTest, WaitEndsAtItsDeadline) {
  Counter counter;
  const auto deadline = CondVar::Clock::now() + milliseconds(20);
  EXPECT_FALSE(counter.AwaitAtLeast(1, deadline));
  EXPECT_GE(CondVar::Clock::now(), deadline);
}

TEST(CondVarTest, MutexIsHeldAfterATimeOut) {
  Mutex mutex;
  CondVar condition;
  MutexLock lock(&mutex);
  while (condition.WaitFor(&mutex, milliseconds(1))) {
  }
  EXPECT_FALSE(AnotherThreadCanLock(&mutex));
}

TEST(CondVarTest, TimeOutThatHasPassedReturnsAtOnce) {
  Mutex mutex;
  CondVar condition;
  MutexLock lock(&mutex);
  EXPECT_FALSE(condition.WaitFor(&mutex, milliseconds(0)));
  EXPECT_FALSE(condition.WaitFor(&mutex, milliseconds(-5)));
}

}  // namespace
}  // namespace shoal
