// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using Clock = ProgressThread::Clock;

// How long a communicator may be without a driver: longer than a caller takes
// from `Start` to `Wait` if it has nothing else to do, shorter than the
// computations that are worth overlapping.
constexpr auto kPatience = std::chrono::microseconds(200);

struct Registry {
  Mutex mutex;
  std::weak_ptr<ProgressThread> current ABSL_GUARDED_BY(mutex);
  std::uint64_t fork_generation ABSL_GUARDED_BY(mutex) = 0;
};

// Never destroyed: communicators may outlive the static objects.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ProgressThread>> ProgressThread::Get() {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  const std::uint64_t generation = ForkGeneration();
  std::shared_ptr<ProgressThread> thread = registry.current.lock();
  if (thread != nullptr && registry.fork_generation == generation) {
    return thread;
  }
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<Waker> waker, Waker::Create());
  try {
    thread.reset(new ProgressThread(std::move(waker)));
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start the thread that drives started operations: ",
                     error.what()));
  }
  registry.current = thread;
  registry.fork_generation = generation;
  return thread;
}

ProgressThread::ProgressThread(std::unique_ptr<Waker> waker)
    : fork_generation_(ForkGeneration()),
      waker_(std::move(waker)),
      next_look_(Clock::time_point::max()) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProgressThread::~ProgressThread() {
  if (fork_generation_ != ForkGeneration()) {
    AbandonThread(std::move(thread_));  // the parent's
    return;
  }
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  waker_->Notify();
  thread_.join();
}

void ProgressThread::Watch(std::shared_ptr<ProgressClient> client,
                           bool urgent) {
  const Clock::time_point due =
      urgent ? Clock::time_point::min() : Clock::now() + kPatience;
  bool wake;
  {
    MutexLock lock(&mutex_);
    const auto found =
        std::find_if(watched_.begin(), watched_.end(),
                     [&](const Watched& w) { return w.client == client; });
    if (found == watched_.end()) {
      watched_.push_back({std::move(client), due});
    } else {
      found->due = std::min(found->due, due);
    }
    wake = due < next_look_;
    next_look_ = std::min(next_look_, due);
  }
  if (wake) waker_->Notify();
}

void ProgressThread::Unwatch(const ProgressClient* client) {
  std::shared_ptr<ProgressClient> dropped;  // destroyed outside the lock
  MutexLock lock(&mutex_);
  const auto found = std::find_if(
      watched_.begin(), watched_.end(),
      [client](const Watched& w) { return w.client.get() == client; });
  if (found == watched_.end()) return;
  dropped = std::move(found->client);
  watched_.erase(found);
}

void ProgressThread::Run() {
  pthread_setname_np(pthread_self(), "shoal-progress");
  std::vector<std::shared_ptr<ProgressClient>> due;
  while (true) {
    Clock::time_point wake = TakeDue(&due);
    for (auto& client : due) {
      if (client->TakeInBackground()) driven_.push_back(std::move(client));
    }
    due.clear();
    if (TakeTurns(&wake)) continue;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    Park(wake);
  }
}

Clock::time_point ProgressThread::TakeDue(
    std::vector<std::shared_ptr<ProgressClient>>* due) {
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  MutexLock lock(&mutex_);
  std::size_t kept = 0;
  for (Watched& watched : watched_) {
    if (watched.due <= now) {
      due->push_back(std::move(watched.client));
    } else {
      next = std::min(next, watched.due);
      std::swap(watched_[kept++], watched);
    }
  }
  watched_.resize(kept);
  next_look_ = next;
  return next;
}

bool ProgressThread::TakeTurns(Clock::time_point* wake) {
  bool moved = false;
  std::size_t kept = 0;
  for (auto& client : driven_) {
    Clock::time_point deadline = Clock::time_point::max();
    const ProgressClient::Turn turn = client->TakeTurn(&deadline);
    if (turn == ProgressClient::Turn::kLeft) continue;
    moved |= turn == ProgressClient::Turn::kMoved;
    *wake = std::min(*wake, deadline);
    std::swap(driven_[kept++], client);
  }
  driven_.resize(kept);
  return moved;
}

void ProgressThread::Park(Clock::time_point wake) {
  descriptors_.assign(1, {waker_->descriptor(), POLLIN, 0});
  waker_->PrepareToPark();
  bool idle;
  {
    MutexLock lock(&mutex_);
    idle = !stopping_ && next_look_ >= wake;
  }
  std::size_t prepared = 0;
  while (idle && prepared < driven_.size()) {
    idle = driven_[prepared++]->PrepareToPark(&descriptors_);
  }
  if (idle) {
    struct timespec timeout = {};
    const bool bounded = wake != Clock::time_point::max();
    if (bounded) {
      const auto left = std::max<std::chrono::nanoseconds>(
          wake - Clock::now(), std::chrono::nanoseconds(0));
      timeout.tv_sec = static_cast<time_t>(left.count() / 1000000000);
      timeout.tv_nsec = static_cast<long>(left.count() % 1000000000);
    }
    ppoll(descriptors_.data(), descriptors_.size(),
          bounded ? &timeout : nullptr, nullptr);
  }
  for (std::size_t i = 0; i < prepared; ++i) driven_[i]->Unpark();
  waker_->Unpark();
}

}  // namespace shoal::internal
