// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/engine_driver.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/active_calls.h"
#include "shoal/comm/driven_call.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/link_drain.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/progress_thread.h"
#include "shoal/comm/wait_strategy.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using Clock = EngineDriver::Clock;

// While only collectives are under way, messages from peers are looked after
// once in so many tries in vain: often enough that no sender waits long for
// room, seldom enough that the tries cost nothing.
constexpr int kTriesBetweenMessages = 64;

// While something moves all the time, the clock is read once in so many tries:
// one call may be late while another moves.
constexpr int kTriesBetweenLooksAtTheClock = 64;

// More ranks than these are not worth naming in every message.
constexpr std::size_t kNamedRanks = 16;

std::string NameOf(const EngineDriverOptions& options) {
  if (options.id == kWorldId) return "";
  const absl::Span<const int> ranks = options.job_ranks;
  const absl::Span<const int> named = ranks.subspan(0, kNamedRanks);
  return absl::StrCat(
      " in communicator ", options.id >> 32, "/", options.id & 0xffffffff,
      " (ranks ", absl::StrJoin(named, ", "),
      named.size() < ranks.size() ? ", ..." : "", " of the world)");
}

ActiveCalls::Options OptionsOfCalls(EngineDriverOptions* options,
                                    const std::string& name) {
  ActiveCalls::Options calls;
  calls.rank = options->rank;
  calls.world_size = options->world_size;
  calls.name = name;
  calls.links = std::move(options->links);
  calls.point_to_point_links = std::move(options->point_to_point_links);
  calls.waker = options->waker;
  calls.engine = options->engine;
  calls.late_link_grace = ToClockDuration(options->late_link_grace);
  return calls;
}

}  // namespace

std::shared_ptr<EngineDriver> EngineDriver::Create(
    EngineDriverOptions options) {
  return std::shared_ptr<EngineDriver>(new EngineDriver(std::move(options)));
}

EngineDriver::EngineDriver(EngineDriverOptions options)
    : rank_(options.rank),
      world_size_(options.world_size),
      id_(options.id),
      job_ranks_(options.job_ranks),
      name_(NameOf(options)),
      domain_(options.domain),
      waker_(options.waker),
      close_timeout_(options.close_timeout),
      cores_to_spare_(options.cores_to_spare),
      calls_(OptionsOfCalls(&options, name_)) {
  domain_->AddCommunicator(id_, this, waker_.get());
}

int EngineDriver::JobRank(int rank) const {
  return rank < 0 || job_ranks_.empty() ? rank : job_ranks_[rank];
}

// The user's side ------------------------------------------------------------

absl::Status EngineDriver::Run(DrivenCall* call) {
  call->begin = Clock::now();
  bool queued = false;
  {
    MutexLock lock(&mutex_);
    Admit(call);
    if (driving_) {
      queued = true;
      Enqueue(call);
      if (!AwaitRole(call)) return call->result;
    }
    driving_ = true;
  }
  // A queued call was begun by the driver that has left.
  if (!queued) calls_.Begin(call);
  DriveUntilSettled(call);
  LeaveRole();
  return call->result;
}

absl::Status EngineDriver::Start(DrivenCall* call) {
  bool has_thread;
  {
    MutexLock lock(&mutex_);
    has_thread = progress_ != nullptr;
  }
  if (!has_thread) {
    SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<ProgressThread> thread,
                           ProgressThread::Get());
    MutexLock lock(&mutex_);
    progress_ = std::move(thread);
  }
  call->begin = Clock::now();
  call->deadline = call->begin + ToClockDuration(call->timeout);
  {
    MutexLock lock(&mutex_);
    Admit(call);
    if (driving_) {
      Enqueue(call);
      return absl::OkStatus();
    }
    driving_ = true;
  }
  calls_.Begin(call);
  const bool urgent = DriveOnce();
  LeaveRole(urgent);
  return absl::OkStatus();
}

void EngineDriver::Await(DrivenCall* call) {
  if (call->done.load(std::memory_order_acquire)) return;
  {
    MutexLock lock(&mutex_);
    if (!AwaitRole(call)) return;
    driving_ = true;
  }
  DriveUntilSettled(call);
  LeaveRole();
}

bool EngineDriver::Test(const DrivenCall* call) {
  if (call->done.load(std::memory_order_acquire)) return true;
  {
    MutexLock lock(&mutex_);
    if (driving_ || call->done.load(std::memory_order_relaxed)) {
      return call->done.load(std::memory_order_acquire);
    }
    driving_ = true;
  }
  const bool urgent = DriveOnce();
  const bool done = call->settled;
  LeaveRole(urgent);
  return done;
}

void EngineDriver::Close() {
  std::string pending;
  {
    MutexLock lock(&mutex_);
    if (!unfinished_.empty())
      pending = unfinished_[0]->parts[0].Describe(name_);
  }
  if (!pending.empty()) {
    domain_->Fail(
        JobRank(rank()),
        absl::CancelledError(absl::StrCat(
            "rank ", JobRank(rank()), " destroyed its communicator while ",
            pending, " was under way; wait for started operations first")));
  }
  std::shared_ptr<ProgressThread> progress;
  {
    MutexLock lock(&mutex_);
    AwaitRole(nullptr);
    driving_ = true;
    progress = std::move(progress_);
  }
  if (!calls_.empty()) {
    calls_.Fail(domain_->status());
    Settle();
    MutexLock lock(&mutex_);
    PublishSettled();
  }
  domain_->RemoveCommunicator(id_);
  // After a failure nobody waits for anybody's last bytes.
  DrainLinks(calls_.AllLinks(),
             domain_->failed() ? absl::ZeroDuration() : close_timeout_);
  // Handles may keep this object, which has nothing to do any more.
  calls_.Clear();
  LeaveRole();
  domain_ = nullptr;
  if (progress != nullptr) progress->Unwatch(this);
}

OperationReport EngineDriver::Report() const {
  MutexLock lock(&mutex_);
  OperationReport report;
  report.communicator = id_;
  report.entered = collectives_;
  report.last_completed = collectives_completed_;
  const DrivenCall::Part* shown = nullptr;
  for (const DrivenCall* call : unfinished_) {
    for (const DrivenCall::Part& part : call->parts) {
      if (shown == nullptr || (shown->is_message() && !part.is_message())) {
        shown = &part;
      }
    }
  }
  if (shown == nullptr) return report;
  report.in_operation = true;
  report.collective = !shown->is_message();
  report.operation = shown->Describe(name_);
  return report;
}

// The role -------------------------------------------------------------------

void EngineDriver::Admit(DrivenCall* call) {
  for (DrivenCall::Part& part : call->parts) {
    part.sequence = part.is_message() ? ++messages_started_ : ++collectives_;
  }
  unfinished_.push_back(call);
}

void EngineDriver::Enqueue(DrivenCall* call) {
  queue_.push_back(call);
  queued_.store(true, std::memory_order_release);
  waker_->Notify();
}

bool EngineDriver::AwaitRole(const DrivenCall* call) {
  Waiter waiter;
  waiter.call = call;
  const auto done = [call] {
    return call != nullptr && call->done.load(std::memory_order_relaxed);
  };
  waiters_.push_back(&waiter);
  if (in_background_) waker_->Notify();
  // Somebody has the role as long as this waits, and minds the deadlines of all
  // calls.
  while (driving_ && !done()) waiter.wakeup.Wait(&mutex_);
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
  if (!done()) return true;
  // It may have been handed the role too.
  if (!driving_ && !waiters_.empty()) waiters_.front()->wakeup.Signal();
  return false;
}

void EngineDriver::LeaveRole(bool urgent) {
  while (true) {
    {
      MutexLock lock(&mutex_);
      PublishSettled();
      if (queue_.empty()) {
        driving_ = false;
        in_background_ = false;
        for (Waiter* waiter : waiters_) {
          const DrivenCall* const call = waiter->call;
          if (call != nullptr && call->done.load(std::memory_order_relaxed)) {
            continue;
          }
          waiter->wakeup.Signal();
          return;
        }
        // Blocking calls have their waiters, so these were started.
        if (!calls_.empty()) progress_->Watch(shared_from_this(), urgent);
        return;
      }
    }
    TakeQueue();
    urgent |= DriveOnce();
  }
}

void EngineDriver::PublishSettled() {
  for (DrivenCall* const call : settled_) {
    unfinished_.erase(std::find(unfinished_.begin(), unfinished_.end(), call));
    for (Waiter* const waiter : waiters_) {
      if (waiter->call == call) waiter->wakeup.Signal();
    }
    call->done.store(true, std::memory_order_release);
  }
  settled_.clear();
  collectives_completed_ = calls_.last_completed();
}

// By the driver --------------------------------------------------------------

// The waiting loop of every call.
void EngineDriver::DriveUntilSettled(DrivenCall* call) {
  WaitStrategy wait(WaitStrategy::DefaultBounds(cores_to_spare_));
  // When there began to be nothing to move; unset while there is.
  Clock::time_point idle_since{};
  for (int tries = 1;; ++tries) {
    if (queued_.load(std::memory_order_acquire)) TakeQueue();
    const bool moved =
        calls_.Progress(/*with_messages=*/calls_.has_messages() ||
                        tries % kTriesBetweenMessages == 0);
    // A fault ends the machine's operations, so it is looked at first.
    if (calls_.HasFault()) HandleFault();
    if (idle_since != Clock::time_point{} && (moved || calls_.failed())) {
      call->waiting += Clock::now() - idle_since;
      idle_since = {};
    }
    Settle();
    if (call->settled) return;
    if (domain_->failed()) {
      calls_.Fail(domain_->status());
      continue;
    }
    if (!settled_.empty()) {
      MutexLock lock(&mutex_);
      PublishSettled();
    }
    if (moved) wait.OnProgress();
    // The clock is read first when something has been tried in vain.
    if (moved && tries % kTriesBetweenLooksAtTheClock != 0) continue;
    const Clock::time_point now = Clock::now();
    const Clock::time_point deadline = CheckDeadlines(now);
    if (moved || calls_.failed() || calls_.HasFault()) continue;
    if (idle_since == Clock::time_point{}) idle_since = now;
    if (!wait.ShouldPark(now)) continue;
    Park(deadline);
    // Before the last look, which may have moved the rest already.
    call->waiting += Clock::now() - idle_since;
    idle_since = {};
  }
}

bool EngineDriver::DriveOnce() {
  calls_.Progress(/*with_messages=*/true);
  if (calls_.HasFault()) return true;
  if (domain_->failed()) calls_.Fail(domain_->status());
  Settle();
  return calls_.FindLate(Clock::now()) != nullptr;
}

void EngineDriver::TakeQueue() {
  {
    MutexLock lock(&mutex_);
    taken_.swap(queue_);
    queued_.store(false, std::memory_order_release);
  }
  for (DrivenCall* const call : taken_) calls_.Begin(call);
  taken_.clear();
}

void EngineDriver::HandleFault() {
  const ActiveCalls::Fault fault = calls_.fault();
  const int culprit = JobRank(fault.peer);
  if (fault.lost) {
    calls_.Fail(domain_->FailAfterLostLink(culprit, fault.operation));
    return;
  }
  domain_->Fail(culprit, fault.status);
  calls_.Fail(domain_->status());
}

void EngineDriver::Settle() {
  const std::size_t before = settled_.size();
  calls_.TakeDone(&settled_);
  for (std::size_t i = before; i < settled_.size(); ++i) {
    // Whatever ended a call that did not succeed has failed the job, whose
    // error is the one to return: it names the first culprit.
    if (!settled_[i]->succeeded) settled_[i]->result = domain_->status();
  }
}

Clock::time_point EngineDriver::CheckDeadlines(Clock::time_point now) {
  const Clock::time_point earliest = calls_.CheckTime(now);
  if (calls_.failed()) return earliest;
  if (const DrivenCall* const late = calls_.FindLate(now)) OnTimeout(*late);
  return earliest;
}

void EngineDriver::OnTimeout(const DrivenCall& call) {
  OperationReport report = calls_.ReportOn(call);
  report.communicator = id_;
  report.members = job_ranks_;
  for (int& peer : report.awaiting) peer = JobRank(peer);
  calls_.Fail(domain_->FailAfterTimeout(report, call.timeout));
}

void EngineDriver::Park(Clock::time_point deadline) {
  poll_.clear();
  if (ArmAndLook(&poll_)) {
    const auto left =
        std::max(std::chrono::duration_cast<std::chrono::nanoseconds>(
                     deadline - Clock::now()),
                 std::chrono::nanoseconds(0));
    struct timespec timeout;
    timeout.tv_sec = static_cast<time_t>(left.count() / 1000000000);
    timeout.tv_nsec = static_cast<long>(left.count() % 1000000000);
    // EINTR and the time-out alike: the caller tries again and looks at the
    // clock.
    ppoll(poll_.data(), poll_.size(), &timeout, nullptr);
  }
  waker_->Unpark();
}

bool EngineDriver::ArmAndLook(std::vector<struct pollfd>* descriptors) {
  Waker& waker = *waker_;
  waker.PrepareToPark();
  // What came before the waker was armed would not wake it, and a machine with
  // a fault waits for nothing any more.
  if (queued_.load(std::memory_order_acquire) || domain_->failed() ||
      calls_.Progress(/*with_messages=*/true) || calls_.HasFault()) {
    return false;
  }
  descriptors->push_back({waker.descriptor(), POLLIN, 0});
  calls_.AppendDescriptors(descriptors);
  return true;
}

// On the progress thread -----------------------------------------------------

bool EngineDriver::TakeInBackground() {
  MutexLock lock(&mutex_);
  if (driving_ || unfinished_.empty()) return false;
  driving_ = true;
  in_background_ = true;
  return true;
}

ProgressClient::Turn EngineDriver::TakeTurn(Clock::time_point* deadline) {
  bool wanted;
  {
    MutexLock lock(&mutex_);
    wanted = !waiters_.empty();
  }
  if (wanted) {
    LeaveRole();
    return Turn::kLeft;
  }
  if (queued_.load(std::memory_order_acquire)) TakeQueue();
  const bool moved = calls_.Progress(/*with_messages=*/true);
  if (calls_.HasFault()) HandleFault();
  if (domain_->failed()) calls_.Fail(domain_->status());
  Settle();
  if (calls_.empty()) {
    LeaveRole();
    return Turn::kLeft;
  }
  if (!settled_.empty()) {
    MutexLock lock(&mutex_);
    PublishSettled();
  }
  *deadline = CheckDeadlines(Clock::now());
  return moved || calls_.failed() || calls_.HasFault() ? Turn::kMoved
                                                       : Turn::kIdle;
}

bool EngineDriver::PrepareToPark(std::vector<struct pollfd>* descriptors) {
  if (!ArmAndLook(descriptors)) return false;
  MutexLock lock(&mutex_);
  return waiters_.empty();
}

void EngineDriver::Unpark() { waker_->Unpark(); }

}  // namespace shoal::internal
