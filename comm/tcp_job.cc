// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_job.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/job_monitor.h"
#include "shoal/comm/service_thread.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

bool IsCollective(const Call& call) {
  return call.signature.kind != CallKind::kSend &&
         call.signature.kind != CallKind::kRecv;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TcpJob>> TcpJob::Create(TcpJobOptions options) {
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<ServiceThread> service,
                         ServiceThread::Get());
  ServiceThread* const thread = service.get();
  std::shared_ptr<TcpJob> job(new TcpJob(std::move(service)));
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
  monitor.report = [self] { return self->Report(); };
  monitor.on_failed = [self] { self->OnFailed(); };
  monitor.on_link = [self](int peer, GuardedDescriptor socket) {
    self->OnLink(peer, std::move(socket));
  };
  SHOAL_ASSIGN_OR_RETURN(job->monitor_,
                         JobMonitor::Start(thread, std::move(monitor)));
  return job;
}

TcpJob::TcpJob(std::shared_ptr<ServiceThread> service)
    : service_(std::move(service)) {}

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

void TcpJob::Enter(std::uint64_t sequence, const Call& call) {
  MutexLock lock(&report_mutex_);
  in_operation_ = true;
  sequence_ = sequence;
  call_ = call;
  if (IsCollective(call)) entered_ = sequence;
}

void TcpJob::Leave(std::uint64_t sequence, const Call& call, bool completed) {
  MutexLock lock(&report_mutex_);
  in_operation_ = false;
  if (completed && IsCollective(call)) last_completed_ = sequence;
}

OperationReport TcpJob::Report() const {
  MutexLock lock(&report_mutex_);
  OperationReport report;
  report.entered = entered_;
  report.last_completed = last_completed_;
  report.in_operation = in_operation_;
  report.collective = IsCollective(call_);
  if (in_operation_) {
    report.operation = absl::StrCat(call_.ToString(), " #", sequence_);
  }
  return report;
}

// The world's communicator is the job's only one.
void TcpJob::BeginClose() { monitor_->SayGoodbye(); }

void TcpJob::AddWaker(Waker* waker) {
  MutexLock lock(&mutex_);
  wakers_.push_back(waker);
  if (job_failed_) waker->Notify();
}

void TcpJob::RemoveWaker(Waker* waker) {
  MutexLock lock(&mutex_);
  wakers_.erase(std::remove(wakers_.begin(), wakers_.end(), waker),
                wakers_.end());
}

void TcpJob::OnFailed() {
  MutexLock lock(&mutex_);
  job_failed_ = true;
  for (Waker* const waker : wakers_) waker->Notify();
}

void TcpJob::SetLinkWaker(std::shared_ptr<Waker> waker) {
  MutexLock lock(&mutex_);
  link_waker_ = std::move(waker);
  if (!links_.empty()) link_waker_->Notify();
}

void TcpJob::OnLink(int peer, GuardedDescriptor socket) {
  MutexLock lock(&mutex_);
  links_.emplace_back(peer, std::move(socket));
  links_waiting_.store(true, std::memory_order_release);
  if (link_waker_ != nullptr) link_waker_->Notify();
}

std::vector<std::pair<int, GuardedDescriptor>> TcpJob::TakeLinks() {
  MutexLock lock(&mutex_);
  links_waiting_.store(false, std::memory_order_release);
  return std::exchange(links_, {});
}

}  // namespace shoal::internal
