// SPDX-License-Identifier: Apache-2.0
//
// Watches over one job of one rank: its control links and its listener, on the
// service thread, and the clock of its control plane (control_plane.h), which
// decides who is to blame for what.
//
// The control plane is a pure state machine behind a mutex: whichever thread
// learns something tells it, and the loop carries its messages. A thread that
// waits for a verdict also drives its clock, so that the wait ends even if the
// service thread gets no time.
//
// Thread-safe. The callbacks run on the loop or inside calls of other methods,
// must not call back, and are not called after `Close` has returned.

#ifndef SHOAL_COMM_JOB_MONITOR_H_
#define SHOAL_COMM_JOB_MONITOR_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/framed_connection.h"
#include "shoal/comm/hello_acceptor.h"
#include "shoal/comm/service_thread.h"
#include "shoal/comm/timeouts.h"

namespace shoal::internal {

// What a link that has been opened is for.
struct LinkDescription {
  CommunicatorId communicator = kWorldId;
  comm::LinkHello::Purpose purpose = comm::LinkHello::PURPOSE_UNSPECIFIED;
  int peer = -1;
};

struct JobMonitorOptions {
  LinkExpectation self;
  // By rank; how messages name them.
  std::vector<std::string> rank_names;
  Timeouts timeouts;
  GuardedDescriptor listener;
  // By rank; invalid for this one.
  std::vector<GuardedDescriptor> control;
  std::function<void(absl::string_view)> log;  // not empty
  // What this rank is doing now, in one of its communicators.
  std::function<OperationReport(CommunicatorId)> report;
  // The job has failed. Called once.
  std::function<void()> on_failed;
  // A peer, another rank of the job, has opened a link. An error says why it is
  // not wanted; the socket is then closed.
  std::function<absl::Status(const LinkDescription& link,
                             absl::FunctionRef<GuardedDescriptor()> take)>
      on_link;
};

class JobMonitor : public std::enable_shared_from_this<JobMonitor> {
 public:
  // `RESOURCE_EXHAUSTED` without descriptors. `service` outlives the monitor's
  // `Close`.
  static absl::StatusOr<std::shared_ptr<JobMonitor>> Start(
      ServiceThread* service, JobMonitorOptions options);

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  absl::Status status() const;

  // As in failure_domain.h.
  void Fail(int culprit, const absl::Status& status);
  absl::Status FailAfterLostLink(int peer, const std::string& operation);
  absl::Status FailAfterTimeout(const OperationReport& report,
                                absl::Duration timeout);
  void SayGoodbye();

  // Stops listening, lets the peers have what is queued for them, for at most
  // the close time-out, and leaves the loop. Blocks. Call once, not on the
  // loop.
  void Close();

 private:
  JobMonitor(boost::asio::io_context* loop, JobMonitorOptions options);

  // On the loop.
  absl::Status StartOnLoop();
  void Watch(int peer);
  void OnFrame(int peer, absl::StatusOr<std::string> payload);
  void OnEnd(int peer, const absl::Status& reason);
  void OnFirstMessage(const comm::BootstrapMessage& message,
                      std::shared_ptr<FramedConnection> connection);
  absl::Status TakeLink(const comm::LinkHello& hello,
                        FramedConnection* connection);
  void CarryMessages();
  void ArmTimer(absl::Time at);
  void BeginClose();
  void ReleaseConnection(int peer);
  void ReleaseAll();

  // Waits until the loop has found out why, and the job has failed; at most
  // for `bound`, in which the plane's own time-outs must have passed, then
  // fails it with `otherwise`.
  absl::Status AwaitVerdict(absl::Duration bound, int culprit,
                            const absl::Status& otherwise)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes known what the plane has decided.
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  boost::asio::io_context* const loop_;
  JobMonitorOptions options_;

  // Used on the loop only.
  boost::asio::steady_timer timer_;
  std::shared_ptr<HelloAcceptor> acceptor_;
  std::vector<std::shared_ptr<FramedConnection>> connections_;  // by rank
  bool closing_ = false;

  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  ControlPlane plane_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  // To be carried by the loop: receiver and payload.
  std::vector<std::pair<int, std::string>> outbox_ ABSL_GUARDED_BY(mutex_);
  bool carry_posted_ ABSL_GUARDED_BY(mutex_) = false;
  // Of `Close`: sockets that have left the loop, and how many have not.
  std::vector<GuardedDescriptor> released_ ABSL_GUARDED_BY(mutex_);
  int unreleased_ ABSL_GUARDED_BY(mutex_) = -1;  // -1: not begun
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_JOB_MONITOR_H_
