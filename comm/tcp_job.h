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

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/communicator_registry.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/link_inbox.h"
#include "shoal/comm/timeouts.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

class JobMonitor;
class ServiceThread;
struct LinkDescription;

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
  void AddCommunicator(CommunicatorId id, const ReportSource* source,
                       Waker* waker) override;
  void RemoveCommunicator(CommunicatorId id) override;

  // Where the links arrive that peers open to communicator `id`. The world's is
  // there from the beginning. Those of another communicator may come before its
  // inbox is opened, and wait. Thread-safe.
  std::shared_ptr<LinkInbox> world_inbox() const { return world_inbox_; }
  void OpenInbox(CommunicatorId id, std::shared_ptr<LinkInbox> inbox);
  void CloseInbox(CommunicatorId id);

 private:
  TcpJob(std::shared_ptr<ServiceThread> service,
         std::shared_ptr<LinkInbox> world_inbox);

  // A link to a communicator that this rank has not begun to make.
  struct EarlyLink {
    CommunicatorId communicator;
    int peer;
    GuardedDescriptor socket;
  };

  // Called by the monitor.
  absl::Status OnLink(const LinkDescription& link,
                      absl::FunctionRef<GuardedDescriptor()> take);

  const std::shared_ptr<ServiceThread> service_;
  const std::shared_ptr<LinkInbox> world_inbox_;
  CommunicatorRegistry communicators_;
  std::shared_ptr<JobMonitor> monitor_;  // null if it could not be started

  Mutex mutex_;
  std::map<CommunicatorId, std::shared_ptr<LinkInbox>> inboxes_
      ABSL_GUARDED_BY(mutex_);
  std::vector<EarlyLink> early_links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_JOB_H_
