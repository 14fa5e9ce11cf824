// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/engine_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_builder.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine_driver.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/group_factory.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/pending_operation.h"
#include "shoal/comm/schedule_cache.h"

namespace shoal::internal {
namespace {

bool IsMessage(const Call& call) {
  return call.signature.kind == CallKind::kSend ||
         call.signature.kind == CallKind::kRecv;
}

// What a handle holds.
class EngineOperation final : public StartedOperation {
 public:
  explicit EngineOperation(std::shared_ptr<EngineDriver> driver)
      : driver_(std::move(driver)) {}
  // The call's memory must not be touched after this.
  ~EngineOperation() override { driver_->Await(&call_); }

  DrivenCall& call() { return call_; }

  absl::Status Wait() override {
    driver_->Await(&call_);
    return call_.result;
  }
  bool Test() override { return driver_->Test(&call_); }

 private:
  const std::shared_ptr<EngineDriver> driver_;
  DrivenCall call_;
};

class EngineCommunicator final : public Communicator {
 public:
  explicit EngineCommunicator(EngineCommunicatorOptions options)
      : policy_(std::move(options.policy)),
        operation_timeout_(options.operation_timeout),
        groups_(std::move(options.groups)),
        driver_(EngineDriver::Create(std::move(options.driver))),
        schedules_(driver_->rank(), driver_->world_size()) {}
  ~EngineCommunicator() override { driver_->Close(); }

  int rank() const override { return driver_->rank(); }
  int world_size() const override { return driver_->world_size(); }
  absl::Status status() const override { return driver_->domain().status(); }

 private:
  absl::Status Execute(absl::Span<const Call> calls,
                       const CallOptions& options) override;
  absl::StatusOr<PendingOperation> Start(absl::Span<const Call> calls,
                                         const CallOptions& options) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(
      int color, int key, const CallOptions& options) override;
  void DoAbort(const absl::Status& reason) override {
    driver_->domain().Fail(driver_->JobRank(rank()), reason);
  }
  CallLog& log() const override { return driver_->log(); }

  // Makes this the thread that is in a call; false if there is another.
  bool TryEnter() { return !busy_.exchange(true, std::memory_order_acquire); }
  absl::Status Refuse(absl::string_view call) const;
  void Leave() { busy_.store(false, std::memory_order_release); }

  // REQUIRES: this thread has entered.
  absl::Status Prepare(absl::Span<const Call> calls, const CallOptions& options,
                       DrivenCall* prepared);
  absl::Status Run(absl::Span<const Call> calls, const CallOptions& options);
  // Tells every rank the colors and keys of all, and returns the group of this
  // rank's color; no ranks if that is negative.
  absl::StatusOr<Group> AgreeOnGroup(int color, int key,
                                     const CallOptions& options);

  const AlgorithmPolicy policy_;
  const absl::Duration operation_timeout_;
  const std::shared_ptr<GroupFactory> groups_;
  const std::shared_ptr<EngineDriver> driver_;

  // True while a thread is in a call.
  std::atomic<bool> busy_{false};
  ScheduleCache schedules_;  // that thread's
};

absl::Status EngineCommunicator::Refuse(absl::string_view call) const {
  return absl::FailedPreconditionError(absl::StrCat(
      call, ": another thread is in a call of this communicator (rank ", rank(),
      driver_->name(), "); one thread at a time may be"));
}

absl::Status EngineCommunicator::Prepare(absl::Span<const Call> calls,
                                         const CallOptions& options,
                                         DrivenCall* prepared) {
  if (driver_->domain().failed()) return driver_->domain().status();
  prepared->timeout = options.timeout.value_or(operation_timeout_);
  for (const Call& call : calls) {
    DrivenCall::Part& part = prepared->parts.emplace_back();
    part.call = call;
    if (IsMessage(call)) continue;
    SHOAL_ASSIGN_OR_RETURN(
        part.call.signature.algorithm,
        ChooseAlgorithm(call.signature, world_size(), policy_));
    SHOAL_ASSIGN_OR_RETURN(part.schedule, schedules_.Get(part.call));
  }
  return absl::OkStatus();
}

absl::Status EngineCommunicator::Run(absl::Span<const Call> calls,
                                     const CallOptions& options) {
  DrivenCall call;
  SHOAL_RETURN_IF_ERROR(Prepare(calls, options, &call));
  return driver_->Run(&call);
}

absl::Status EngineCommunicator::Execute(absl::Span<const Call> calls,
                                         const CallOptions& options) {
  if (!TryEnter()) return Refuse(calls[0].ToString());
  const absl::Cleanup leave = [this] { Leave(); };
  return Run(calls, options);
}

absl::StatusOr<PendingOperation> EngineCommunicator::Start(
    absl::Span<const Call> calls, const CallOptions& options) {
  if (!TryEnter()) return Refuse(calls[0].ToString());
  const absl::Cleanup leave = [this] { Leave(); };
  auto operation = std::make_unique<EngineOperation>(driver_);
  DrivenCall& call = operation->call();
  absl::Status started = Prepare(calls, options, &call);
  if (started.ok()) started = driver_->Start(&call);
  if (!started.ok()) {
    call.done.store(true);  // nobody else has seen it
    return started;
  }
  return PendingOperation(std::move(operation));
}

absl::StatusOr<Group> EngineCommunicator::AgreeOnGroup(
    int color, int key, const CallOptions& options) {
  // The id of all groups of this split is rank 0's to give.
  const std::int64_t mine[3] = {color, key,
                                rank() == 0 ? groups_->NextNumber() : 0};
  std::vector<std::int64_t> all(3 * world_size());
  SHOAL_ASSIGN_OR_RETURN(
      const Call call, CallBuilder(rank(), world_size())
                           .AllGather(BufferOf(absl::MakeConstSpan(mine)),
                                      BufferOf(absl::MakeSpan(all)), options));
  SHOAL_RETURN_IF_ERROR(Run(absl::MakeConstSpan(&call, 1), options));
  Group group;
  if (color < 0) return group;
  group.id = MakeCommunicatorId(driver_->JobRank(0),
                                static_cast<std::uint32_t>(all[2]));
  std::vector<std::int64_t> colors;
  std::vector<std::int64_t> keys;
  for (int other = 0; other < world_size(); ++other) {
    colors.push_back(all[3 * other]);
    keys.push_back(all[3 * other + 1]);
  }
  for (const int member : RanksOfColor(colors, keys, color)) {
    if (member == rank()) group.rank = static_cast<int>(group.job_ranks.size());
    group.job_ranks.push_back(driver_->JobRank(member));
  }
  return group;
}

absl::StatusOr<std::unique_ptr<Communicator>> EngineCommunicator::DoSplit(
    int color, int key, const CallOptions& options) {
  const std::string operation =
      absl::StrCat("Split(color ", color, ", key ", key, ")", driver_->name());
  if (!TryEnter()) return Refuse(operation);
  const absl::Cleanup leave = [this] { Leave(); };
  const absl::Duration timeout = options.timeout.value_or(operation_timeout_);
  const absl::Time deadline = MonotonicNow() + timeout;
  SHOAL_ASSIGN_OR_RETURN(const Group group, AgreeOnGroup(color, key, options));
  if (group.job_ranks.empty()) return nullptr;
  EngineCommunicatorOptions child;
  SHOAL_ASSIGN_OR_RETURN(child.driver,
                         groups_->Make(group, operation, timeout, deadline));
  child.groups = groups_;
  child.policy = policy_;
  child.operation_timeout = operation_timeout_;
  std::unique_ptr<Communicator> communicator =
      MakeEngineCommunicator(std::move(child));
  // After it every rank has all of its links.
  CallOptions rest;
  rest.timeout = std::max(deadline - MonotonicNow(), absl::Milliseconds(1));
  SHOAL_RETURN_IF_ERROR(communicator->Barrier(rest));
  return communicator;
}

}  // namespace

std::unique_ptr<Communicator> MakeEngineCommunicator(
    EngineCommunicatorOptions options) {
  return std::make_unique<EngineCommunicator>(std::move(options));
}

}  // namespace shoal::internal
