// SPDX-License-Identifier: Apache-2.0
//
// Drives the calls of one communicator (active_calls.h), from whatever thread
// waits for one. Faults that their state machines find, and calls that are
// late, are taken to the failure domain, which knows the reason or finds it out
// and tells the other ranks.
//
// Whoever waits drives. One thread at a time has the driver's role:
//
//   the caller of a blocking call, or a waiter, until its own call is done;
//   a caller that starts something, or tests it, for one turn;
//   the process's progress thread, while nobody waits and calls are under way.
//
// On leaving, a thread hands the role to one that waits, else the progress
// thread takes it after a moment if calls are under way. A waiter that finds
// the role taken parks until its call is done or the role is handed to it. A
// call that is made meanwhile goes through a queue to whoever drives: the order
// in which calls were made is their order on the wire.
//
// A blocking call on a communicator with nothing else under way takes the role
// and gives it back under one uncontended lock each.
//
// Invariants.
// 1. The active calls and what else is marked "by the driver" are touched by
// the
//    thread with the role only.
// 2. While nobody has the role, the queue is empty.
// 3. A call is published as done exactly once, by the driver, as the last thing
//    that happens to it here: its owner may then destroy it.
//
// Threads: `Run` and `Start` one at a time; the rest thread-safe.

#ifndef SHOAL_COMM_ENGINE_DRIVER_H_
#define SHOAL_COMM_ENGINE_DRIVER_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/active_calls.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/driven_call.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/link.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/progress_thread.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

struct EngineDriverOptions {
  // Of this rank in the communicator, and how many there are.
  int rank = 0;
  int world_size = 1;
  CommunicatorId id = kWorldId;
  // The ranks of the job, by rank of the communicator; empty: the same.
  std::vector<int> job_ranks;
  // One link for each rank, null for this one.
  std::vector<std::unique_ptr<Link>> links;
  std::unique_ptr<PointToPointLinks> point_to_point_links;
  std::shared_ptr<FailureDomain> domain;
  // What the links and the domain notify; see waker.h.
  std::shared_ptr<Waker> waker;
  EngineOptions engine;
  // How long `Close` waits for peers to take this rank's last bytes.
  absl::Duration close_timeout;
  // After a peer has ended its links for collectives: for a link to arrive that
  // it had opened to send on.
  absl::Duration late_link_grace;
  // Every rank of this machine can have a core of its own.
  bool cores_to_spare = false;
};

class EngineDriver final : public ProgressClient,
                           public ReportSource,
                           public std::enable_shared_from_this<EngineDriver> {
 public:
  using Clock = DrivenCall::Clock;

  static std::shared_ptr<EngineDriver> Create(EngineDriverOptions options);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  FailureDomain& domain() const { return *domain_; }
  int JobRank(int rank) const;

  // "" in the world; " in communicator 0/3 (ranks 1, 4 of the world)".
  const std::string& name() const { return name_; }

  // Runs `call` to its end, on this thread as far as it has the role.
  absl::Status Run(DrivenCall* call);

  // Starts `call` and its first sends. Never waits. The call is done one day,
  // whatever happens. Errors: no thread for the progress of started calls.
  absl::Status Start(DrivenCall* call);

  // Waits until `call`, which was started, is done.
  void Await(DrivenCall* call);

  // Moves what can be moved at once; whether `call` is done. Never waits.
  bool Test(const DrivenCall* call);

  // What has been called so far.
  CallLog& log() { return calls_.log(); }

  // Ends every call, failing the job if there are any, says goodbye, and ends
  // the links in good order. No `Run` or `Start` may be in progress or follow.
  void Close();

  OperationReport Report() const override;

 private:
  // A thread that is parked until its call is done or it is handed the role.
  struct Waiter {
    const DrivenCall* call;  // null: for the role alone
    CondVar wakeup;
  };

  explicit EngineDriver(EngineDriverOptions options);

  // The role -----------------------------------------------------------------

  void Admit(DrivenCall* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(DrivenCall* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Parks until the role is this thread's: true, or until `call` is done:
  // false.
  bool AwaitRole(const DrivenCall* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Publishes what is settled, and hands the role on. `urgent`: the progress
  // thread should not wait for a moment.
  void LeaveRole(bool urgent = false);
  void PublishSettled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // By the driver ------------------------------------------------------------

  void DriveUntilSettled(DrivenCall* call);
  // One turn that never waits; whether the next driver is needed at once.
  bool DriveOnce();
  void TakeQueue();
  // Takes the fault to the domain and fails everything; may wait for the
  // domain.
  void HandleFault();
  void Settle();
  // Fails everything if a call is late. Returns the earliest deadline.
  Clock::time_point CheckDeadlines(Clock::time_point now);
  void OnTimeout(const DrivenCall& call);
  void Park(Clock::time_point deadline);
  // Arms the waker, looks once more, and appends what to poll; false if there
  // is something to do before.
  bool ArmAndLook(std::vector<struct pollfd>* descriptors);

  // ProgressClient, on the progress thread.
  bool TakeInBackground() override;
  Turn TakeTurn(Clock::time_point* deadline) override;
  bool PrepareToPark(std::vector<struct pollfd>* descriptors) override;
  void Unpark() override;

  const int rank_;
  const int world_size_;
  const CommunicatorId id_;
  const std::vector<int> job_ranks_;
  const std::string name_;
  std::shared_ptr<FailureDomain> domain_;
  const std::shared_ptr<Waker> waker_;
  const absl::Duration close_timeout_;
  const bool cores_to_spare_;

  // By the driver.
  ActiveCalls calls_;
  std::vector<DrivenCall*> settled_;  // to be published
  std::vector<DrivenCall*> taken_;    // from the queue
  std::vector<struct pollfd> poll_;   // kept to be used again

  // True while the queue is not empty, for a look without the lock.
  std::atomic<bool> queued_{false};

  mutable Mutex mutex_;
  bool driving_ ABSL_GUARDED_BY(mutex_) = false;
  bool in_background_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<DrivenCall*> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
  // All calls that are not done, the oldest first.
  std::vector<DrivenCall*> unfinished_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t collectives_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t collectives_completed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t messages_started_ ABSL_GUARDED_BY(mutex_) = 0;
  // Null until something is started.
  std::shared_ptr<ProgressThread> progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ENGINE_DRIVER_H_
