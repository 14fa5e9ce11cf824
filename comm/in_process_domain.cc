// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/in_process_domain.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/call.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

// What one rank last said of itself.
struct RankState {
  bool closed = false;
  bool in_operation = false;
  std::uint64_t entered = 0;
  std::uint64_t last_completed = 0;
  std::uint64_t sequence = 0;  // of `call`
  Call call;
};

bool IsCollective(const Call& call) {
  return call.signature.kind != CallKind::kSend &&
         call.signature.kind != CallKind::kRecv;
}

class SharedFate {
 public:
  explicit SharedFate(int world_size) : ranks_(world_size) {}

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
      for (Waker* waker : wakers_) waker->Notify();
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

  void Enter(int rank, std::uint64_t sequence, const Call& call) {
    MutexLock lock(&mutex_);
    RankState& state = ranks_[rank];
    state.in_operation = true;
    state.sequence = sequence;
    state.call = call;
    if (IsCollective(call)) state.entered = sequence;
  }

  void Leave(int rank, std::uint64_t sequence, const Call& call,
             bool completed) {
    MutexLock lock(&mutex_);
    RankState& state = ranks_[rank];
    state.in_operation = false;
    if (completed && IsCollective(call)) state.last_completed = sequence;
  }

  void Close(int rank) {
    MutexLock lock(&mutex_);
    ranks_[rank].closed = true;
  }

  void AddWaker(Waker* waker) {
    MutexLock lock(&mutex_);
    wakers_.push_back(waker);
  }

  void RemoveWaker(Waker* waker) {
    MutexLock lock(&mutex_);
    wakers_.erase(std::remove(wakers_.begin(), wakers_.end(), waker),
                  wakers_.end());
  }

 private:
  // Whom a rank that ran out of time has been waiting for, in words.
  std::string Culprit(int rank, const OperationReport& report) const {
    MutexLock lock(&mutex_);
    if (report.collective) {
      for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
        const RankState& state = ranks_[other];
        if (other == rank || state.closed || state.entered >= report.entered) {
          continue;
        }
        return absl::StrCat("rank ", other, ", alive, last completed #",
                            state.last_completed, Doing(state));
      }
    }
    if (report.awaiting.empty()) return "no rank is awaited";
    const int peer = report.awaiting.front();
    return absl::StrCat("rank ", peer, " is awaited", Doing(ranks_[peer]));
  }

  // A rank that is in another collective at the same place in the order, and
  // its call; empty: none.
  std::string OtherCall(int rank, const OperationReport& report) const {
    if (!report.collective) return "";
    MutexLock lock(&mutex_);
    for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
      const RankState& state = ranks_[other];
      if (other == rank || !state.in_operation || !IsCollective(state.call) ||
          state.entered != report.entered) {
        continue;
      }
      const std::string operation =
          absl::StrCat(state.call.ToString(), " #", state.sequence);
      if (operation != report.operation) {
        return absl::StrCat("rank ", other, " called ", operation);
      }
    }
    return "";
  }

  static std::string Doing(const RankState& state) {
    if (!state.in_operation) return ", in no call";
    return absl::StrCat(", in ", state.call.ToString(), " #", state.sequence);
  }

  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<RankState> ranks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Waker*> wakers_ ABSL_GUARDED_BY(mutex_);
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
  void Enter(std::uint64_t sequence, const Call& call) override {
    fate_->Enter(rank_, sequence, call);
  }
  void Leave(std::uint64_t sequence, const Call& call,
             bool completed) override {
    fate_->Leave(rank_, sequence, call, completed);
  }
  void BeginClose() override { fate_->Close(rank_); }
  void AddWaker(Waker* waker) override { fate_->AddWaker(waker); }
  void RemoveWaker(Waker* waker) override { fate_->RemoveWaker(waker); }

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
