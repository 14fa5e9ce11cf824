// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/schedule_steps.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

std::int32_t Append(Step step, Schedule* schedule) {
  schedule->steps.push_back(std::move(step));
  return static_cast<std::int32_t>(schedule->steps.size()) - 1;
}

Step ReceiveReduceStep(int peer, const BufferRange& target,
                       const BufferRange& source, bool completes) {
  Step step;
  step.kind = StepKind::kReceiveReduce;
  step.peer = peer;
  step.target = target;
  step.source = source;
  step.completes = completes;
  return step;
}

}  // namespace

std::int32_t Send(int peer, const BufferRange& range, Schedule* schedule) {
  Step step;
  step.kind = StepKind::kSend;
  step.peer = peer;
  step.target = range;
  return Append(std::move(step), schedule);
}

std::int32_t Receive(int peer, const BufferRange& range, Schedule* schedule) {
  Step step;
  step.kind = StepKind::kReceive;
  step.peer = peer;
  step.target = range;
  return Append(std::move(step), schedule);
}

std::int32_t ReceiveThenReduce(int peer, const BufferRange& target,
                               const BufferRange& source, bool completes,
                               Schedule* schedule) {
  Step step = ReceiveReduceStep(peer, target, source, completes);
  step.source_first = false;
  return Append(std::move(step), schedule);
}

std::int32_t ReduceWithReceived(int peer, const BufferRange& target,
                                const BufferRange& source, bool completes,
                                Schedule* schedule) {
  return Append(ReceiveReduceStep(peer, target, source, completes), schedule);
}

std::int32_t Copy(const BufferRange& target, const BufferRange& source,
                  Schedule* schedule) {
  Step step;
  step.kind = StepKind::kCopy;
  step.target = target;
  step.source = source;
  return Append(std::move(step), schedule);
}

std::int32_t Fold(const BufferRange& target, std::vector<BufferRange> operands,
                  Schedule* schedule) {
  Step step;
  step.kind = StepKind::kFold;
  step.target = target;
  step.operands = std::move(operands);
  step.completes = true;
  return Append(std::move(step), schedule);
}

BufferRange EqualPart(BufferId buffer, const Schedule& schedule, int index) {
  const std::int64_t count = schedule.signature.count;
  return {buffer, index * count, count};
}

BufferRange PartOf(BufferId buffer, absl::Span<const std::int64_t> counts,
                   int index) {
  BufferRange part = {buffer, 0, counts[index]};
  for (int i = 0; i < index; ++i) part.begin += counts[i];
  return part;
}

BufferRange SentPart(const Schedule& schedule, int rank) {
  if (schedule.signature.kind == CallKind::kAllToAll) {
    return EqualPart(BufferId::kInput, schedule, rank);
  }
  const absl::Span<const std::int64_t> counts = schedule.counts;
  return PartOf(BufferId::kInput, counts.subspan(0, schedule.world_size), rank);
}

BufferRange ReceivedPart(const Schedule& schedule, int rank) {
  if (schedule.signature.kind == CallKind::kAllToAll) {
    return EqualPart(BufferId::kOutput, schedule, rank);
  }
  const absl::Span<const std::int64_t> counts = schedule.counts;
  return PartOf(BufferId::kOutput, counts.subspan(schedule.world_size), rank);
}

BufferRange GatheredPart(const Schedule& schedule, int rank) {
  if (schedule.signature.kind == CallKind::kAllGather) {
    return EqualPart(BufferId::kOutput, schedule, rank);
  }
  return PartOf(BufferId::kOutput, schedule.counts, rank);
}

}  // namespace shoal::internal
