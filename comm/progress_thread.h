// SPDX-License-Identifier: Apache-2.0
//
// The one thread of a process that drives communicators on which operations
// were started and nobody waits.
//
// Whoever waits drives (engine_driver.h); this thread takes the driver's role
// only once nobody has had it for a moment, so that a `Start` that is soon
// followed by a `Wait` passes through no other thread, and gives it up as soon
// as somebody wants it. It never spins: when nothing moves on any communicator
// that it drives, it parks in one poll(2) for all of them. While it waits for
// the verdict on a job that has failed (failure_domain.h), which is bounded,
// the communicators of other jobs that it drives stand still.
//
// It is started by the first operation that is started in the process, and
// joined when the last communicator that started one is gone. It takes no
// signals. Thread-safe.

#ifndef SHOAL_COMM_PROGRESS_THREAD_H_
#define SHOAL_COMM_PROGRESS_THREAD_H_

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

// A communicator, as the thread sees it. All methods are called on the thread.
class ProgressClient {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~ProgressClient() = default;

  // Takes the driver's role; false if another thread has it, or there is
  // nothing to drive.
  virtual bool TakeInBackground() = 0;

  // The rest only while this thread has the role.

  enum class Turn {
    kMoved,  // another turn may move more
    kIdle,   // nothing moves before a descriptor is ready, or `deadline`
    kLeft,   // the role is given up
  };
  virtual Turn TakeTurn(Clock::time_point* deadline) = 0;

  // Appends what to poll and arms it; false if there is something to do before.
  // `Unpark` follows in both cases.
  virtual bool PrepareToPark(std::vector<struct pollfd>* descriptors) = 0;
  virtual void Unpark() = 0;
};

class ProgressThread {
 public:
  using Clock = ProgressClient::Clock;

  // The process's thread; starts it if there is none, or if it is the parent's,
  // which a fork has left behind. `RESOURCE_EXHAUSTED` when the system has no
  // thread or descriptor left.
  static absl::StatusOr<std::shared_ptr<ProgressThread>> Get();

  ~ProgressThread();

  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Nobody drives `client`, which has operations under way. The thread looks
  // after it in a moment, or now if it is urgent.
  void Watch(std::shared_ptr<ProgressClient> client, bool urgent);

  // Forgets the client, unless the thread is driving it.
  void Unwatch(const ProgressClient* client);

 private:
  struct Watched {
    std::shared_ptr<ProgressClient> client;
    Clock::time_point due;
  };

  explicit ProgressThread(std::unique_ptr<Waker> waker);

  void Run();
  // Moves those that are due to `due`; returns when the next one will be.
  Clock::time_point TakeDue(std::vector<std::shared_ptr<ProgressClient>>* due);
  bool TakeTurns(Clock::time_point* wake);
  void Park(Clock::time_point wake);

  const std::uint64_t fork_generation_;
  const std::unique_ptr<Waker> waker_;

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
  // When the thread will look at `watched_` by itself.
  Clock::time_point next_look_ ABSL_GUARDED_BY(mutex_);

  // Used on the thread only.
  std::vector<std::shared_ptr<ProgressClient>> driven_;
  std::vector<struct pollfd> descriptors_;

  std::thread thread_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_PROGRESS_THREAD_H_
