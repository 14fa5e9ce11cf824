// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_job.h"

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/job_monitor.h"
#include "shoal/comm/link_inbox.h"
#include "shoal/comm/service_thread.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

// Of communicators that this rank has not begun to make. Peers are ahead of it
// by less than one Split in each of its threads.
constexpr std::size_t kMaxEarlyLinks = 1024;

std::set<int> AllBut(int rank, int world_size) {
  std::set<int> others;
  for (int other = 0; other < world_size; ++other) {
    if (other != rank) others.insert(other);
  }
  return others;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TcpJob>> TcpJob::Create(TcpJobOptions options) {
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<ServiceThread> service,
                         ServiceThread::Get());
  ServiceThread* const thread = service.get();
  std::shared_ptr<TcpJob> job(new TcpJob(
      std::move(service),
      std::make_shared<LinkInbox>(std::set<int>(),
                                  AllBut(options.rank, options.world_size),
                                  /*waker=*/nullptr)));
  JobMonitorOptions monitor;
  monitor.self = {std::move(options.job_id), options.session, options.rank,
                  options.world_size};
  monitor.rank_names = std::move(options.rank_names);
  monitor.timeouts = options.timeouts;
  monitor.listener = std::move(options.listener);
  monitor.control = std::move(options.control);
  monitor.log = std::move(options.log);
  // The job closes its monitor before it goes, so it outlives these.
  TcpJob* const self = job.get();
  monitor.report = [self](CommunicatorId id) {
    return self->communicators_.Report(id);
  };
  monitor.on_failed = [self] { self->communicators_.NotifyAll(); };
  monitor.on_link = [self](const LinkDescription& link,
                           absl::FunctionRef<GuardedDescriptor()> take) {
    return self->OnLink(link, take);
  };
  SHOAL_ASSIGN_OR_RETURN(job->monitor_,
                         JobMonitor::Start(thread, std::move(monitor)));
  return job;
}

TcpJob::TcpJob(std::shared_ptr<ServiceThread> service,
               std::shared_ptr<LinkInbox> world_inbox)
    : service_(std::move(service)), world_inbox_(std::move(world_inbox)) {
  inboxes_[kWorldId] = world_inbox_;
}

TcpJob::~TcpJob() {
  if (monitor_ != nullptr) monitor_->Close();
}

bool TcpJob::failed() const { return monitor_->failed(); }

absl::Status TcpJob::status() const { return monitor_->status(); }

void TcpJob::Fail(int culprit, const absl::Status& status) {
  monitor_->Fail(culprit, status);
}

absl::Status TcpJob::FailAfterLostLink(int peer, const std::string& operation) {
  return monitor_->FailAfterLostLink(peer, operation);
}

absl::Status TcpJob::FailAfterTimeout(const OperationReport& report,
                                      absl::Duration timeout) {
  return monitor_->FailAfterTimeout(report, timeout);
}

void TcpJob::AddCommunicator(CommunicatorId id, const ReportSource* source,
                             Waker* waker) {
  communicators_.Add(id, source, waker);
}

void TcpJob::RemoveCommunicator(CommunicatorId id) {
  if (communicators_.Remove(id)) monitor_->SayGoodbye();
}

void TcpJob::OpenInbox(CommunicatorId id, std::shared_ptr<LinkInbox> inbox) {
  MutexLock lock(&mutex_);
  std::vector<EarlyLink> others;
  for (EarlyLink& link : early_links_) {
    if (link.communicator != id) {
      others.push_back(std::move(link));
      continue;
    }
    // Otherwise the link ends, and its sender finds out.
    inbox
        ->Put(LinkPurpose::kCollective, link.peer,
              [&link] { return std::move(link.socket); })
        .IgnoreError();
  }
  early_links_ = std::move(others);
  inboxes_[id] = std::move(inbox);
}

void TcpJob::CloseInbox(CommunicatorId id) {
  MutexLock lock(&mutex_);
  inboxes_.erase(id);
}

absl::Status TcpJob::OnLink(const LinkDescription& link,
                            absl::FunctionRef<GuardedDescriptor()> take) {
  const bool collective = link.purpose == comm::LinkHello::COLLECTIVE;
  if (!collective && link.purpose != comm::LinkHello::POINT_TO_POINT) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", link.peer, " asks for a link that it should not ask for"));
  }
  MutexLock lock(&mutex_);
  if (const auto inbox = inboxes_.find(link.communicator);
      inbox != inboxes_.end()) {
    return inbox->second->Put(
        collective ? LinkPurpose::kCollective : LinkPurpose::kPointToPoint,
        link.peer, take);
  }
  // Nobody sends messages in a communicator before all of its ranks have it.
  if (!collective) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", link.peer,
                     " sends in a communicator that this rank has destroyed"));
  }
  if (early_links_.size() >= kMaxEarlyLinks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", link.peer, " asks for one link too many to ",
                     "communicators that this rank does not know"));
  }
  early_links_.push_back({link.communicator, link.peer, take()});
  return absl::OkStatus();
}

}  // namespace shoal::internal
