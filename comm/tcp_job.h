// SPDX-License-Identifier: Apache-2.0
//
// The failure domain (failure_domain.h) of a world that joined over TCP, and
// the door through which its later links come in.
//
// Destroying it leaves the world: it lets the peers have the last control
// messages, for at most the close time-out. That must not happen on the service
// thread.

#ifndef SHOAL_COMM_TCP_JOB_H_
#define SHOAL_COMM_TCP_JOB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/call.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/timeouts.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

class JobMonitor;
class ServiceThread;

struct TcpJobOptions {
  int rank = 0;
  int world_size = 2;
  std::string job_id;
  std::uint64_t session = 0;
  // By rank; how messages name them.
  std::vector<std::string> rank_names;
  Timeouts timeouts;
  GuardedDescriptor listener;
  // By rank; invalid for this one.
  std::vector<GuardedDescriptor> control;
  std::function<void(absl::string_view)> log;  // not empty
};

class TcpJob final : public FailureDomain {
 public:
  // `RESOURCE_EXHAUSTED` without threads or descriptors.
  static absl::StatusOr<std::shared_ptr<TcpJob>> Create(TcpJobOptions options);
  ~TcpJob() override;

  bool failed() const override;
  absl::Status status() const override;
  void Fail(int culprit, const absl::Status& status) override;
  absl::Status FailAfterLostLink(int peer,
                                 const std::string& operation) override;
  absl::Status FailAfterTimeout(const OperationReport& report,
                                absl::Duration timeout) override;
  void Enter(std::uint64_t sequence, const Call& call) override;
  void Leave(std::uint64_t sequence, const Call& call, bool completed) override;
  void BeginClose() override;
  void AddWaker(Waker* waker) override;
  void RemoveWaker(Waker* waker) override;

  // The sockets of point-to-point links that peers have opened, each with its
  // peer. `waker` is notified when there are new ones. Thread-safe.
  void SetLinkWaker(std::shared_ptr<Waker> waker);
  bool HasLinks() const {
    return links_waiting_.load(std::memory_order_acquire);
  }
  std::vector<std::pair<int, GuardedDescriptor>> TakeLinks();

 private:
  explicit TcpJob(std::shared_ptr<ServiceThread> service);

  // Called by the monitor.
  OperationReport Report() const;
  void OnFailed();
  void OnLink(int peer, GuardedDescriptor socket);

  const std::shared_ptr<ServiceThread> service_;
  std::shared_ptr<JobMonitor> monitor_;  // null if it could not be started

  // What this rank is doing; a lock of its own, because each operation takes
  // it twice.
  mutable Mutex report_mutex_;
  bool in_operation_ ABSL_GUARDED_BY(report_mutex_) = false;
  std::uint64_t sequence_ ABSL_GUARDED_BY(report_mutex_) = 0;
  Call call_ ABSL_GUARDED_BY(report_mutex_);
  std::uint64_t entered_ ABSL_GUARDED_BY(report_mutex_) = 0;
  std::uint64_t last_completed_ ABSL_GUARDED_BY(report_mutex_) = 0;

  std::atomic<bool> links_waiting_{false};
  Mutex mutex_;
  bool job_failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Waker*> wakers_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Waker> link_waker_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int, GuardedDescriptor>> links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_JOB_H_
