// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/engine_communicator.h"

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

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/link_drain.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/schedule_cache.h"
#include "shoal/comm/wait_strategy.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using Clock = WaitStrategy::Clock;

// While only a collective is under way, messages from peers are looked after
// once in so many tries in vain: often enough that no sender waits long for
// room, seldom enough that the tries cost nothing.
constexpr int kTriesBetweenMessages = 64;

// Time-outs may be infinite, or too long for the clock: a year will do.
Clock::duration ToClockDuration(absl::Duration duration) {
  return absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24 * 365)));
}

bool IsMessage(const Call& call) {
  return call.signature.kind == CallKind::kSend ||
         call.signature.kind == CallKind::kRecv;
}

class EngineCommunicator final : public Communicator {
 public:
  explicit EngineCommunicator(EngineCommunicatorOptions options);
  ~EngineCommunicator() override;

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  absl::Status status() const override { return options_.domain->status(); }

 private:
  // One operation of the call that is being executed.
  struct Operation {
    Call call;  // with the algorithm that was chosen
    bool message = false;
    std::uint64_t id = 0;  // in the machine that has it
    // Of collectives the engine's, which is the same on all ranks; messages are
    // counted by each rank for itself.
    std::uint64_t sequence = 0;
  };

  // How long a call may take.
  struct Limit {
    absl::Duration timeout;  // as it was given
    absl::Duration left;     // once links have been opened
  };

  absl::Status Execute(absl::Span<const Call> calls,
                       const CallOptions& options) override;
  void DoAbort(const absl::Status& reason) override {
    options_.domain->Fail(rank(), reason);
  }

  absl::StatusOr<Operation> StartCollective(const Call& call);
  absl::StatusOr<Operation> StartMessage(const Call& call, Limit* limit);
  absl::Status EnsureOutgoing(const Call& call, std::uint64_t sequence,
                              Limit* limit);
  void AdoptIncoming();

  absl::Status Drive(absl::Span<const Operation> operations,
                     const Limit& limit);
  bool Progress(bool with_messages);
  bool IsDone(const Operation& operation) const;
  bool AllDone(absl::Span<const Operation> operations) const;
  absl::Status Finish(absl::Span<const Operation> operations);
  const EngineFault& Fault() const;
  // OnUnreachable, too, returns the job's error.
  absl::Status OnUnreachable(const Call& call, std::uint64_t sequence,
                             const absl::Status& why, absl::Duration timeout);
  // These end both machines, and with them every operation, with the job's
  // error; the last one returns it.
  void OnFault(const EngineFault& fault, const Operation& operation);
  void OnTimeout(absl::Span<const Operation> operations,
                 absl::Duration timeout);
  void FailAll(const absl::Status& status);
  absl::Status FailWith(const absl::Status& status);
  void Park(Clock::time_point deadline);

  std::string Describe(const Operation& operation) const {
    return absl::StrCat(operation.call.ToString(), " #", operation.sequence);
  }

  EngineCommunicatorOptions options_;
  std::vector<std::unique_ptr<Link>> outgoing_;  // by peer; null: not opened
  std::vector<std::unique_ptr<Link>> incoming_;
  Engine engine_;
  PointToPoint messages_;
  ScheduleCache schedules_;

  std::uint64_t messages_started_ = 0;

  // True while a thread is in a call.
  std::atomic<bool> busy_{false};

  // Kept to be used again.
  std::vector<LinkInterest> interest_;
  std::vector<struct pollfd> poll_;
};

std::vector<Link*> Pointers(const std::vector<std::unique_ptr<Link>>& links) {
  std::vector<Link*> pointers;
  for (const auto& link : links) pointers.push_back(link.get());
  return pointers;
}

EngineCommunicator::EngineCommunicator(EngineCommunicatorOptions options)
    : options_(std::move(options)),
      outgoing_(options_.world_size),
      engine_(options_.rank, options_.world_size, Pointers(options_.links),
              options_.engine),
      messages_(options_.rank, options_.world_size),
      schedules_(options_.rank, options_.world_size) {
  options_.point_to_point_links->SetWaker(options_.waker);
  options_.domain->AddWaker(options_.waker.get());
}

EngineCommunicator::~EngineCommunicator() {
  options_.domain->BeginClose();
  options_.domain->RemoveWaker(options_.waker.get());
  AdoptIncoming();
  std::vector<Link*> links;
  for (auto* owned : {&options_.links, &outgoing_, &incoming_}) {
    for (const auto& link : *owned) {
      if (link != nullptr) links.push_back(link.get());
    }
  }
  // After a failure nobody waits for anybody's last bytes.
  DrainLinks(links, options_.domain->failed() ? absl::ZeroDuration()
                                              : options_.close_timeout);
}

absl::Status EngineCommunicator::Execute(absl::Span<const Call> calls,
                                         const CallOptions& options) {
  if (busy_.exchange(true, std::memory_order_acquire)) {
    return absl::FailedPreconditionError(
        absl::StrCat(calls[0].ToString(),
                     ": another thread is in a call of this "
                     "communicator (rank ",
                     rank(), "); one thread at a time may be"));
  }
  const absl::Cleanup leave = [this] {
    busy_.store(false, std::memory_order_release);
  };
  if (options_.domain->failed()) return options_.domain->status();

  Limit limit;
  limit.timeout = options.timeout.value_or(options_.operation_timeout);
  limit.left = limit.timeout;
  Operation operations[2];
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(operations[i], IsMessage(calls[i])
                                              ? StartMessage(calls[i], &limit)
                                              : StartCollective(calls[i]));
  }
  return Drive(absl::MakeConstSpan(operations, calls.size()), limit);
}

absl::StatusOr<EngineCommunicator::Operation>
EngineCommunicator::StartCollective(const Call& call) {
  Call chosen = call;
  SHOAL_ASSIGN_OR_RETURN(
      chosen.signature.algorithm,
      ChooseAlgorithm(call.signature, world_size(), options_.policy));
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<const Schedule> schedule,
                         schedules_.Get(chosen));
  const std::uint64_t id = engine_.Start(std::move(schedule), chosen);
  return Operation{chosen, /*message=*/false, id, /*sequence=*/id};
}

absl::StatusOr<EngineCommunicator::Operation> EngineCommunicator::StartMessage(
    const Call& call, Limit* limit) {
  AdoptIncoming();
  const std::uint64_t sequence = ++messages_started_;
  if (call.signature.kind == CallKind::kRecv) {
    return Operation{call, /*message=*/true, messages_.StartRecv(call),
                     sequence};
  }
  SHOAL_RETURN_IF_ERROR(EnsureOutgoing(call, sequence, limit));
  return Operation{call, /*message=*/true, messages_.StartSend(call), sequence};
}

absl::Status EngineCommunicator::EnsureOutgoing(const Call& call,
                                                std::uint64_t sequence,
                                                Limit* limit) {
  std::unique_ptr<Link>& link = outgoing_[call.peer];
  if (link != nullptr) return absl::OkStatus();
  const Clock::time_point start = Clock::now();
  options_.domain->Enter(sequence, call);
  absl::StatusOr<std::unique_ptr<Link>> opened =
      options_.point_to_point_links->OpenOutgoing(call.peer, limit->left);
  if (opened.ok()) {
    link = *std::move(opened);
    messages_.SetOutgoing(call.peer, link.get());
    limit->left -= absl::FromChrono(Clock::now() - start);
    return absl::OkStatus();
  }
  const absl::Status status =
      OnUnreachable(call, sequence, opened.status(), limit->timeout);
  options_.domain->Leave(sequence, call, /*completed=*/false);
  return status;
}

absl::Status EngineCommunicator::OnUnreachable(const Call& call,
                                               std::uint64_t sequence,
                                               const absl::Status& why,
                                               absl::Duration timeout) {
  if (options_.domain->failed()) return FailWith(options_.domain->status());
  const std::string operation =
      absl::StrCat(call.ToString(), " #", sequence, " (", why.message(), ")");
  if (!absl::IsDeadlineExceeded(why)) {
    return FailWith(options_.domain->FailAfterLostLink(call.peer, operation));
  }
  OperationReport report;
  report.entered = engine_.last_completed();
  report.last_completed = engine_.last_completed();
  report.in_operation = true;
  report.collective = false;
  report.operation = operation;
  report.awaiting = {call.peer};
  return FailWith(options_.domain->FailAfterTimeout(report, timeout));
}

void EngineCommunicator::AdoptIncoming() {
  if (!options_.point_to_point_links->HasIncoming()) return;
  for (auto& [peer, link] : options_.point_to_point_links->TakeIncoming()) {
    messages_.SetIncoming(peer, link.get());
    incoming_.push_back(std::move(link));
  }
}

// The waiting loop of every call.
absl::Status EngineCommunicator::Drive(absl::Span<const Operation> operations,
                                       const Limit& limit) {
  const Operation& first = operations[0];
  options_.domain->Enter(first.sequence, first.call);
  WaitStrategy wait(WaitStrategy::DefaultBounds(options_.cores_to_spare));
  // The clock is read first when something has been tried in vain.
  Clock::time_point deadline{};
  for (int tries = 1;; ++tries) {
    const bool moved =
        Progress(first.message || tries % kTriesBetweenMessages == 0);
    // A fault ends the machine's operations, so it is looked at first.
    if (const EngineFault& fault = Fault(); !fault.ok()) {
      OnFault(fault, first);
      break;
    }
    if (AllDone(operations)) break;
    if (options_.domain->failed()) {
      FailAll(options_.domain->status());
      break;
    }
    if (moved) {
      wait.OnProgress();
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (deadline == Clock::time_point{}) {
      deadline = now + ToClockDuration(limit.left);
    } else if (now >= deadline) {
      OnTimeout(operations, limit.timeout);
      break;
    }
    if (wait.ShouldPark(now)) Park(deadline);
  }
  return Finish(operations);
}

bool EngineCommunicator::Progress(bool with_messages) {
  bool moved = engine_.Progress();
  if (with_messages) {
    AdoptIncoming();
    if (messages_.Progress()) moved = true;
  }
  return moved;
}

bool EngineCommunicator::IsDone(const Operation& operation) const {
  return operation.message ? messages_.IsDone(operation.id)
                           : engine_.IsDone(operation.id);
}

bool EngineCommunicator::AllDone(absl::Span<const Operation> operations) const {
  for (const Operation& operation : operations) {
    if (!IsDone(operation)) return false;
  }
  return true;
}

// REQUIRES: all are done. Whatever ended an operation that did not succeed has
// failed the job, whose error is the one to return: it names the first culprit.
absl::Status EngineCommunicator::Finish(
    absl::Span<const Operation> operations) {
  bool succeeded = true;
  for (const Operation& operation : operations) {
    if (operation.message) {
      succeeded &= messages_.result(operation.id).ok();
      messages_.Forget(operation.id);
    } else {
      succeeded &= engine_.result(operation.id).ok();
      engine_.Forget(operation.id);
    }
  }
  options_.domain->Leave(operations[0].sequence, operations[0].call, succeeded);
  return succeeded ? absl::OkStatus() : options_.domain->status();
}

const EngineFault& EngineCommunicator::Fault() const {
  const EngineFault& fault = engine_.fault();
  return fault.kind != EngineFault::Kind::kNone ? fault : messages_.fault();
}

void EngineCommunicator::OnFault(const EngineFault& fault,
                                 const Operation& operation) {
  if (fault.kind == EngineFault::Kind::kPeerLost) {
    FailAll(
        options_.domain->FailAfterLostLink(fault.peer, Describe(operation)));
    return;
  }
  options_.domain->Fail(fault.peer, fault.status);
  FailAll(options_.domain->status());
}

void EngineCommunicator::OnTimeout(absl::Span<const Operation> operations,
                                   absl::Duration timeout) {
  const Operation* late = &operations[0];
  for (const Operation& operation : operations) {
    if (!IsDone(operation)) late = &operation;
  }
  OperationReport report;
  report.last_completed = engine_.last_completed();
  report.entered = late->message ? report.last_completed : late->id;
  report.in_operation = true;
  report.collective = !late->message;
  report.operation = Describe(*late);
  report.awaiting =
      late->message ? messages_.AwaitedPeers() : engine_.AwaitedPeers();
  FailAll(options_.domain->FailAfterTimeout(report, timeout));
}

absl::Status EngineCommunicator::FailWith(const absl::Status& status) {
  FailAll(status);
  return status;
}

void EngineCommunicator::FailAll(const absl::Status& status) {
  engine_.Fail(status);
  messages_.Fail(status);
}

void EngineCommunicator::Park(Clock::time_point deadline) {
  Waker& waker = *options_.waker;
  waker.PrepareToPark();
  const absl::Cleanup unpark = [&waker] { waker.Unpark(); };
  // What came before the waker was armed would not wake it, and a machine with
  // a fault waits for nothing any more.
  if (options_.domain->failed() || Progress(/*with_messages=*/true) ||
      !Fault().ok()) {
    return;
  }

  interest_.clear();
  engine_.AppendInterest(&interest_);
  messages_.AppendInterest(&interest_);
  poll_.clear();
  poll_.push_back({waker.descriptor(), POLLIN, 0});
  for (const LinkInterest& interest : interest_) {
    // Links without a descriptor notify the waker.
    const int descriptor = interest.link->descriptor();
    if (descriptor < 0) continue;
    short events = 0;
    if (interest.read) events |= POLLIN;
    if (interest.write) events |= POLLOUT;
    poll_.push_back({descriptor, events, 0});
  }
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

}  // namespace

std::unique_ptr<Communicator> MakeEngineCommunicator(
    EngineCommunicatorOptions options) {
  return std::make_unique<EngineCommunicator>(std::move(options));
}

}  // namespace shoal::internal
