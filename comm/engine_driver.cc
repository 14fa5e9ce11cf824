// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/engine_driver.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
#include "shoal/comm/call.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/link_drain.h"
#include "shoal/comm/message_links.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_links.h"
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

// Time-outs may be infinite, or too long for the clock: a year will do.
Clock::duration ToClockDuration(absl::Duration duration) {
  return absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24 * 365)));
}

std::int64_t Nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

std::vector<Link*> Pointers(const std::vector<std::unique_ptr<Link>>& links) {
  std::vector<Link*> pointers;
  for (const auto& link : links) pointers.push_back(link.get());
  return pointers;
}

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

}  // namespace

std::shared_ptr<EngineDriver> EngineDriver::Create(
    EngineDriverOptions options) {
  return std::shared_ptr<EngineDriver>(new EngineDriver(std::move(options)));
}

EngineDriver::EngineDriver(EngineDriverOptions options)
    : options_(std::move(options)),
      name_(NameOf(options_)),
      engine_(options_.rank, options_.world_size, Pointers(options_.links),
              options_.engine),
      messages_(options_.rank, options_.world_size),
      message_links_(options_.world_size,
                     std::move(options_.point_to_point_links), options_.waker,
                     ToClockDuration(options_.late_link_grace), &messages_) {
  options_.domain->AddCommunicator(options_.id, this, options_.waker.get());
}

int EngineDriver::JobRank(int rank) const {
  return rank < 0 || options_.job_ranks.empty() ? rank
                                                : options_.job_ranks[rank];
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
  if (!queued) Begin(call);
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
  Begin(call);
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
    if (!unfinished_.empty()) pending = Describe(unfinished_[0]->parts[0]);
  }
  if (!pending.empty()) {
    options_.domain->Fail(
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
  if (!active_.empty()) {
    FailAll(options_.domain->status());
    Settle();
    MutexLock lock(&mutex_);
    PublishSettled();
  }
  options_.domain->RemoveCommunicator(options_.id);
  message_links_.Adopt();
  std::vector<Link*> links;
  for (const auto& link : options_.links) {
    if (link != nullptr) links.push_back(link.get());
  }
  message_links_.AppendLinks(&links);
  // After a failure nobody waits for anybody's last bytes.
  DrainLinks(links, options_.domain->failed() ? absl::ZeroDuration()
                                              : options_.close_timeout);
  // Handles may keep this object, which has nothing to do any more.
  options_.links.clear();
  message_links_.Clear();
  LeaveRole();
  options_.domain = nullptr;
  if (progress != nullptr) progress->Unwatch(this);
}

OperationReport EngineDriver::Report() const {
  MutexLock lock(&mutex_);
  OperationReport report;
  report.communicator = options_.id;
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
  report.operation = Describe(*shown);
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
  options_.waker->Notify();
}

bool EngineDriver::AwaitRole(const DrivenCall* call) {
  Waiter waiter;
  waiter.call = call;
  const auto done = [call] {
    return call != nullptr && call->done.load(std::memory_order_relaxed);
  };
  waiters_.push_back(&waiter);
  if (in_background_) options_.waker->Notify();
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
        if (!active_.empty()) progress_->Watch(shared_from_this(), urgent);
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
  collectives_completed_ = engine_.last_completed();
}

// By the driver --------------------------------------------------------------

// The waiting loop of every call.
void EngineDriver::DriveUntilSettled(DrivenCall* call) {
  WaitStrategy wait(WaitStrategy::DefaultBounds(options_.cores_to_spare));
  // When there began to be nothing to move; unset while there is.
  Clock::time_point idle_since{};
  for (int tries = 1;; ++tries) {
    if (queued_.load(std::memory_order_acquire)) TakeQueue();
    const bool moved = Progress(/*with_messages=*/active_messages_ > 0 ||
                                tries % kTriesBetweenMessages == 0);
    if (moved && idle_since != Clock::time_point{}) {
      call->waiting += Clock::now() - idle_since;
      idle_since = {};
    }
    // A fault ends the machine's operations, so it is looked at first.
    if (HasFault()) HandleFault();
    Settle();
    if (call->settled) return;
    if (options_.domain->failed()) {
      FailAll(options_.domain->status());
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
    if (moved || failed_ || HasFault()) continue;
    if (idle_since == Clock::time_point{}) idle_since = now;
    if (wait.ShouldPark(now)) Park(deadline);
  }
}

bool EngineDriver::DriveOnce() {
  Progress(/*with_messages=*/true);
  if (HasFault()) return true;
  if (options_.domain->failed()) FailAll(options_.domain->status());
  Settle();
  const Clock::time_point now = Clock::now();
  return std::any_of(active_.begin(), active_.end(), [now](DrivenCall* call) {
    return call->deadline != Clock::time_point{} && call->deadline <= now;
  });
}

void EngineDriver::TakeQueue() {
  {
    MutexLock lock(&mutex_);
    taken_.swap(queue_);
    queued_.store(false, std::memory_order_release);
  }
  for (DrivenCall* const call : taken_) Begin(call);
  taken_.clear();
}

void EngineDriver::Begin(DrivenCall* call) {
  active_.push_back(call);
  for (DrivenCall::Part& part : call->parts) {
    if (!part.is_message()) {
      part.id = engine_.Start(part.schedule, part.call);
      continue;
    }
    ++active_messages_;
    message_links_.Adopt();
    if (part.call.signature.kind == CallKind::kRecv) {
      part.id = messages_.StartRecv(part.call);
    } else {
      part.id = messages_.StartSend(part.call);
      if (!failed_) message_links_.Open(part.call.peer);
    }
  }
}

bool EngineDriver::Progress(bool with_messages) {
  bool moved = engine_.Progress();
  if (with_messages) {
    if (message_links_.Progress()) moved = true;
    if (messages_.Progress()) moved = true;
  }
  return moved;
}

bool EngineDriver::HasFault() const {
  return !failed_ && (!engine_.fault().ok() || !messages_.fault().ok() ||
                      !message_links_.unreachable().ok());
}

void EngineDriver::HandleFault() {
  FailureDomain& domain = *options_.domain;
  const bool in_messages = engine_.fault().ok();
  if (in_messages && messages_.fault().ok()) {
    const int peer = message_links_.unreachable_peer();
    FailAll(domain.FailAfterLostLink(
        JobRank(peer),
        absl::StrCat(Concerned(/*message=*/true, peer), " (",
                     message_links_.unreachable().message(), ")")));
    return;
  }
  const EngineFault& fault = in_messages ? messages_.fault() : engine_.fault();
  if (fault.kind == EngineFault::Kind::kPeerLost) {
    FailAll(domain.FailAfterLostLink(JobRank(fault.peer),
                                     Concerned(in_messages, fault.peer)));
    return;
  }
  domain.Fail(JobRank(fault.peer),
              absl::Status(fault.status.code(),
                           absl::StrCat(fault.status.message(), name_)));
  FailAll(domain.status());
}

void EngineDriver::FailAll(const absl::Status& status) {
  failed_ = true;
  engine_.Fail(status);
  messages_.Fail(status);
}

void EngineDriver::Settle() {
  // How calls that a fault has ended come out is not known yet.
  if (HasFault()) return;
  std::size_t kept = 0;
  Clock::time_point now{};
  for (DrivenCall* const call : active_) {
    if (!std::all_of(call->parts.begin(), call->parts.end(),
                     [this](const auto& part) { return IsDone(part); })) {
      active_[kept++] = call;
      continue;
    }
    if (now == Clock::time_point{}) now = Clock::now();
    bool succeeded = true;
    for (const DrivenCall::Part& part : call->parts) {
      succeeded &= TakeResult(*call, part, now);
    }
    // Whatever ended a call that did not succeed has failed the job, whose
    // error is the one to return: it names the first culprit.
    if (!succeeded) call->result = options_.domain->status();
    call->settled = true;
    settled_.push_back(call);
  }
  active_.resize(kept);
}

bool EngineDriver::TakeResult(const DrivenCall& call,
                              const DrivenCall::Part& part,
                              Clock::time_point now) {
  CallRecord record;
  if (part.is_message()) {
    record.succeeded = messages_.result(part.id).ok();
    messages_.Forget(part.id);
    --active_messages_;
  } else {
    record.succeeded = engine_.result(part.id).ok();
    engine_.Forget(part.id);
  }
  record.call = &part.call;
  record.sequence = part.sequence;
  record.bytes = DataBytes(part.call, rank(), world_size());
  record.begin_ns = Nanoseconds(call.begin.time_since_epoch());
  record.end_ns = Nanoseconds(now.time_since_epoch());
  record.waiting_ns = Nanoseconds(call.waiting);
  log_.Add(record);
  return record.succeeded;
}

bool EngineDriver::IsDone(const DrivenCall::Part& part) const {
  return part.is_message() ? messages_.IsDone(part.id)
                           : engine_.IsDone(part.id);
}

Clock::time_point EngineDriver::CheckDeadlines(Clock::time_point now) {
  Clock::time_point earliest = Clock::time_point::max();
  for (DrivenCall* const call : active_) {
    if (call->deadline == Clock::time_point{}) {
      call->deadline = now + ToClockDuration(call->timeout);
    } else if (now >= call->deadline && !failed_) {
      OnTimeout(*call);
    }
    earliest = std::min(earliest, call->deadline);
  }
  if (active_messages_ == 0 || failed_) return earliest;
  return std::min(earliest, CheckUnlinkedSenders(now));
}

template <typename Visit>
void EngineDriver::ForEachUnlinkedSender(Visit visit) const {
  for (const DrivenCall* const call : active_) {
    for (const DrivenCall::Part& part : call->parts) {
      if (part.call.signature.kind != CallKind::kRecv) continue;
      if (!message_links_.IsLinked(part.call.peer)) visit(part.call.peer);
    }
  }
}

Clock::time_point EngineDriver::CheckUnlinkedSenders(Clock::time_point now) {
  Clock::time_point next = Clock::time_point::max();
  ForEachUnlinkedSender([&](int peer) {
    next = std::min(
        next, message_links_.CheckSender(peer, *options_.links[peer], now));
  });
  return next;
}

void EngineDriver::OnTimeout(const DrivenCall& call) {
  const DrivenCall::Part* late = &call.parts[0];
  for (const DrivenCall::Part& part : call.parts) {
    if (!IsDone(part)) late = &part;
  }
  OperationReport report;
  report.communicator = options_.id;
  report.members = options_.job_ranks;
  report.last_completed = engine_.last_completed();
  report.entered = late->is_message() ? report.last_completed : late->sequence;
  report.in_operation = true;
  report.collective = !late->is_message();
  report.operation = Describe(*late);
  if (late->is_message()) {
    absl::StrAppend(&report.operation, " [", messages_.DescribeUnfinished(),
                    "]");
  }
  for (const int peer :
       late->is_message() ? messages_.AwaitedPeers() : engine_.AwaitedPeers()) {
    report.awaiting.push_back(JobRank(peer));
  }
  FailAll(options_.domain->FailAfterTimeout(report, call.timeout));
}

std::string EngineDriver::Concerned(bool message, int peer) const {
  const DrivenCall::Part* concerned = nullptr;
  for (const DrivenCall* call : active_) {
    for (const DrivenCall::Part& part : call->parts) {
      if (concerned == nullptr) concerned = &part;
      if (part.is_message() != message) continue;
      if (!message || part.call.peer == peer) return Describe(part);
    }
  }
  return concerned == nullptr ? absl::StrCat("no operation", name_)
                              : Describe(*concerned);
}

std::string EngineDriver::Describe(const DrivenCall::Part& part) const {
  return absl::StrCat(part.call.ToString(), " #", part.sequence, name_);
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
  options_.waker->Unpark();
}

bool EngineDriver::ArmAndLook(std::vector<struct pollfd>* descriptors) {
  Waker& waker = *options_.waker;
  waker.PrepareToPark();
  // What came before the waker was armed would not wake it, and a machine with
  // a fault waits for nothing any more.
  if (queued_.load(std::memory_order_acquire) || options_.domain->failed() ||
      Progress(/*with_messages=*/true) || HasFault()) {
    return false;
  }
  interest_.clear();
  engine_.AppendInterest(&interest_);
  messages_.AppendInterest(&interest_);
  descriptors->push_back({waker.descriptor(), POLLIN, 0});
  for (const LinkInterest& interest : interest_) {
    // Links without a descriptor notify the waker.
    const int descriptor = interest.link->descriptor();
    if (descriptor < 0) continue;
    short events = 0;
    if (interest.read) events |= POLLIN;
    if (interest.write) events |= POLLOUT;
    descriptors->push_back({descriptor, events, 0});
  }
  message_links_.AppendDescriptors(descriptors);
  ForEachUnlinkedSender([&](int peer) {
    const int descriptor = options_.links[peer]->descriptor();
    if (descriptor < 0 || message_links_.HasEnded(peer)) return;
    descriptors->push_back({descriptor, POLLRDHUP, 0});
  });
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
  bool moved = Progress(/*with_messages=*/true);
  if (HasFault()) HandleFault();
  if (options_.domain->failed()) FailAll(options_.domain->status());
  Settle();
  if (active_.empty()) {
    LeaveRole();
    return Turn::kLeft;
  }
  if (!settled_.empty()) {
    MutexLock lock(&mutex_);
    PublishSettled();
  }
  *deadline = CheckDeadlines(Clock::now());
  return moved || failed_ || HasFault() ? Turn::kMoved : Turn::kIdle;
}

bool EngineDriver::PrepareToPark(std::vector<struct pollfd>* descriptors) {
  if (!ArmAndLook(descriptors)) return false;
  MutexLock lock(&mutex_);
  return waiters_.empty();
}

void EngineDriver::Unpark() { options_.waker->Unpark(); }

}  // namespace shoal::internal
