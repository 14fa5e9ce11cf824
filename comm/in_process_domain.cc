// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/in_process_domain.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/communicator_registry.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

class SharedFate {
 public:
  explicit SharedFate(int world_size) {
    for (int rank = 0; rank < world_size; ++rank) ranks_.emplace_back();
  }

  bool failed() const { return failed_.load(std::memory_order_acquire); }

  absl::Status status() const {
    MutexLock lock(&mutex_);
    return status_;
  }

  absl::Status Fail(const absl::Status& status) {
    MutexLock lock(&mutex_);
    if (status_.ok()) {
      status_ = status;
      failed_.store(true, std::memory_order_release);
      for (Rank& rank : ranks_) rank.communicators.NotifyAll();
    }
    return status_;
  }

  absl::Status FailAfterLostLink(int peer, const std::string& operation) {
    return Fail(absl::UnavailableError(absl::StrCat(
        "rank ", peer, " left: its communicator was destroyed, but ", operation,
        " needs it; destroy communicators only after the last operation")));
  }

  absl::Status FailAfterTimeout(int rank, const OperationReport& report,
                                absl::Duration timeout) {
    const std::string other = OtherCall(rank, report);
    if (!other.empty()) {
      return Fail(absl::FailedPreconditionError(absl::StrCat(
          other, " where rank ", rank, " called ", report.operation,
          "; all ranks must make the same calls in the same order")));
    }
    return Fail(absl::DeadlineExceededError(absl::StrCat(
        "rank ", rank, ": ", report.operation, " is not done after ",
        absl::FormatDuration(timeout), ": ", Culprit(rank, report),
        "; raise the time-out if the ranks need longer between calls")));
  }

  void Add(int rank, CommunicatorId id, const ReportSource* source,
           Waker* waker) {
    ranks_[rank].communicators.Add(id, source, waker);
  }

  void Remove(int rank, CommunicatorId id) {
    if (ranks_[rank].communicators.Remove(id)) ranks_[rank].left.store(true);
  }

 private:
  struct Rank {
    CommunicatorRegistry communicators;
    std::atomic<bool> left{false};
  };

  // The other ranks of the communicator, in order.
  std::vector<int> Others(int rank, const OperationReport& report) const {
    std::vector<int> others = report.members;
    if (others.empty()) {
      for (std::size_t other = 0; other < ranks_.size(); ++other) {
        others.push_back(static_cast<int>(other));
      }
    }
    others.erase(std::remove(others.begin(), others.end(), rank), others.end());
    return others;
  }

  OperationReport Ask(int rank, const OperationReport& about) const {
    return ranks_[rank].communicators.Report(about.communicator);
  }

  // Whom a rank that ran out of time has been waiting for, in words.
  std::string Culprit(int rank, const OperationReport& report) const {
    if (report.collective) {
      for (const int other : Others(rank, report)) {
        if (ranks_[other].left.load()) continue;
        const OperationReport answer = Ask(other, report);
        if (answer.entered >= report.entered) continue;
        return absl::StrCat("rank ", other, ", alive, last completed #",
                            answer.last_completed, ", ", Doing(answer));
      }
    }
    if (report.awaiting.empty()) return "no rank is awaited";
    const int peer = report.awaiting.front();
    return absl::StrCat("rank ", peer, " is awaited, ",
                        Doing(Ask(peer, report)));
  }

  // A rank that is in another collective at the same place in the order, and
  // its call; empty: none.
  std::string OtherCall(int rank, const OperationReport& report) const {
    if (!report.collective) return "";
    for (const int other : Others(rank, report)) {
      const OperationReport answer = Ask(other, report);
      if (!answer.in_operation || !answer.collective ||
          answer.last_completed + 1 != report.entered) {
        continue;
      }
      if (answer.operation != report.operation) {
        return absl::StrCat("rank ", other, " called ", answer.operation);
      }
    }
    return "";
  }

  static std::string Doing(const OperationReport& report) {
    if (!report.in_operation) return "in no call";
    return absl::StrCat("in ", report.operation);
  }

  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::deque<Rank> ranks_;
};

class InProcessDomain final : public FailureDomain {
 public:
  InProcessDomain(int rank, std::shared_ptr<SharedFate> fate)
      : rank_(rank), fate_(std::move(fate)) {}

  bool failed() const override { return fate_->failed(); }
  absl::Status status() const override { return fate_->status(); }
  void Fail(int /*culprit*/, const absl::Status& status) override {
    fate_->Fail(status).IgnoreError();
  }
  absl::Status FailAfterLostLink(int peer,
                                 const std::string& operation) override {
    return fate_->FailAfterLostLink(peer, operation);
  }
  absl::Status FailAfterTimeout(const OperationReport& report,
                                absl::Duration timeout) override {
    return fate_->FailAfterTimeout(rank_, report, timeout);
  }
  void AddCommunicator(CommunicatorId id, const ReportSource* source,
                       Waker* waker) override {
    fate_->Add(rank_, id, source, waker);
  }
  void RemoveCommunicator(CommunicatorId id) override {
    fate_->Remove(rank_, id);
  }

 private:
  const int rank_;
  const std::shared_ptr<SharedFate> fate_;
};

}  // namespace

std::vector<std::shared_ptr<FailureDomain>> MakeInProcessDomains(
    int world_size) {
  const auto fate = std::make_shared<SharedFate>(world_size);
  std::vector<std::shared_ptr<FailureDomain>> domains;
  for (int rank = 0; rank < world_size; ++rank) {
    domains.push_back(std::make_shared<InProcessDomain>(rank, fate));
  }
  return domains;
}

}  // namespace shoal::internal
