// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/symbolic_execution.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/symbolic_expression.h"

namespace shoal::internal {
namespace {

constexpr SymbolicValue kHeader = {-2, -2};

std::vector<BufferRange> SourcesOf(const Step& step) {
  if (step.kind == StepKind::kFold) return step.operands;
  if (step.kind == StepKind::kReceiveReduce || step.kind == StepKind::kCopy) {
    return {step.source};
  }
  return {};
}

bool Overlap(const BufferRange& a, const BufferRange& b) {
  return a.buffer == b.buffer && a.begin < b.end() && b.begin < a.end();
}

std::string Place(int rank, std::int32_t step) {
  return absl::StrCat("rank ", rank, " step ", step);
}

}  // namespace

MemoryLayout MemoryLayout::Of(const Schedule& schedule, bool in_place) {
  const CallKind kind = schedule.signature.kind;
  const std::int64_t part = schedule.signature.count * schedule.rank;
  MemoryLayout layout;
  if (kind == CallKind::kBroadcast) in_place = true;
  if (kind == CallKind::kAllToAllV) in_place = false;
  if (!in_place) layout.output_begin = schedule.input_count;
  if (in_place && (kind == CallKind::kReduceScatter ||
                   (kind == CallKind::kScatter && schedule.output_count > 0 &&
                    schedule.input_count > 0))) {
    layout.output_begin = part;
  }
  if (in_place && (kind == CallKind::kAllGather ||
                   (kind == CallKind::kGather && schedule.output_count > 0))) {
    layout.input_begin = part;
  }
  if (in_place && kind == CallKind::kAllGatherV) {
    layout.input_begin = std::accumulate(
        schedule.counts.begin(), schedule.counts.begin() + schedule.rank,
        std::int64_t{0});
  }
  layout.scratch_begin = std::max(layout.input_begin + schedule.input_count,
                                  layout.output_begin + schedule.output_count);
  layout.size = layout.scratch_begin + schedule.scratch_count;
  return layout;
}

std::int64_t MemoryLayout::Address(const BufferRange& range) const {
  switch (range.buffer) {
    case BufferId::kInput:
      return input_begin + range.begin;
    case BufferId::kOutput:
      return output_begin + range.begin;
    case BufferId::kScratch:
      return scratch_begin + range.begin;
  }
  return 0;
}

SymbolicExecution::SymbolicExecution(absl::Span<const Schedule> schedules,
                                     const std::vector<MemoryLayout>& layouts,
                                     std::int64_t link_capacity,
                                     ExpressionTable* expressions)
    : link_capacity_(link_capacity),
      expressions_(expressions),
      ranks_(schedules.size()) {
  const int n = static_cast<int>(schedules.size());
  std::vector<int> lookup(schedules.size() * schedules.size(), -1);
  for (int r = 0; r < n; ++r) {
    RankState& rank = ranks_[r];
    rank.schedule = &schedules[r];
    rank.layout = layouts[r];
    rank.memory.resize(rank.layout.size);
    rank.steps.resize(rank.schedule->steps.size());
    ComputeBounds(&rank);
    for (std::size_t i = 0; i < rank.steps.size(); ++i) {
      const Step& step = rank.schedule->steps[i];
      const std::int32_t index = static_cast<std::int32_t>(i);
      if (IsLocal(step.kind)) {
        rank.local_steps.push_back(index);
      } else if (step.kind == StepKind::kSend) {
        const int channel = FindChannel(r, step.peer, &lookup);
        channels_[channel].sends.push_back(index);
      } else {
        const int channel = FindChannel(step.peer, r, &lookup);
        channels_[channel].receives.push_back(index);
      }
    }
  }
}

int SymbolicExecution::FindChannel(int from, int to, std::vector<int>* lookup) {
  int& channel = (*lookup)[from * ranks_.size() + to];
  if (channel < 0) {
    channel = static_cast<int>(channels_.size());
    Channel added;
    added.from = from;
    added.to = to;
    channels_.push_back(added);
    ranks_[from].outgoing.push_back(channel);
    ranks_[to].incoming.push_back(channel);
  }
  return channel;
}

// A step at its element k waits until an earlier step has passed the same
// element: there, element k + (own begin - earlier begin).
void SymbolicExecution::ComputeBounds(RankState* rank) {
  const std::vector<Step>& steps = rank->schedule->steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& later = steps[i];
    const auto add = [&](std::int32_t index, const BufferRange& own,
                         const BufferRange& other) {
      if (!Overlap(own, other)) return;
      rank->steps[i].bounds.push_back({index, other.begin - own.begin});
    };
    for (const std::int32_t index : later.depends_on) {
      const Step& earlier = steps[index];
      const bool earlier_writes = earlier.kind != StepKind::kSend;
      const bool later_writes = later.kind != StepKind::kSend;
      if (earlier_writes || later_writes) {
        add(index, later.target, earlier.target);
      }
      if (earlier_writes) {
        for (const BufferRange& source : SourcesOf(later)) {
          add(index, source, earlier.target);
        }
      }
      if (later_writes) {
        for (const BufferRange& source : SourcesOf(earlier)) {
          add(index, later.target, source);
        }
      }
    }
  }
}

std::int64_t SymbolicExecution::Allowed(const RankState& rank,
                                        std::int32_t step) const {
  const StepState& state = rank.steps[step];
  const Step& definition = rank.schedule->steps[step];
  if (definition.after >= 0 && !rank.steps[definition.after].complete) {
    return -1;
  }
  std::int64_t allowed = definition.target.count;
  for (const Bound& bound : state.bounds) {
    const StepState& earlier = rank.steps[bound.step];
    if (earlier.complete) continue;
    allowed = std::min(allowed, earlier.processed + bound.offset);
  }
  return std::max<std::int64_t>(allowed, 0);
}

bool SymbolicExecution::HasRoom(const Channel& channel) const {
  return static_cast<std::int64_t>(channel.items.size() - channel.head) <
         link_capacity_;
}

void SymbolicExecution::Wake(int rank) {
  if (ranks_[rank].queued) return;
  ranks_[rank].queued = true;
  awake_.push_back(rank);
}

absl::Status SymbolicExecution::Run() {
  for (std::size_t r = ranks_.size(); r > 0; --r) Wake(static_cast<int>(r) - 1);
  while (!awake_.empty()) {
    const int rank = awake_.back();
    awake_.pop_back();
    ranks_[rank].queued = false;
    bool moved = true;
    while (moved) {
      moved = false;
      SHOAL_RETURN_IF_ERROR(RunRank(rank, &moved));
    }
  }
  return Unfinished();
}

absl::Status SymbolicExecution::RunRank(int rank, bool* moved) {
  RankState& state = ranks_[rank];
  for (const std::int32_t step : state.local_steps) {
    SHOAL_RETURN_IF_ERROR(RunLocal(&state, step, moved));
  }
  for (const int channel : state.outgoing) {
    if (RunSends(&channels_[channel])) {
      *moved = true;
      Wake(channels_[channel].to);
    }
  }
  for (const int channel : state.incoming) {
    bool received = false;
    SHOAL_RETURN_IF_ERROR(RunReceives(&channels_[channel], &received));
    if (received) {
      *moved = true;
      Wake(channels_[channel].from);
    }
  }
  return absl::OkStatus();
}

bool SymbolicExecution::RunSends(Channel* channel) {
  RankState& rank = ranks_[channel->from];
  bool moved = false;
  while (channel->next_send < channel->sends.size()) {
    const std::int32_t index = channel->sends[channel->next_send];
    const Step& step = rank.schedule->steps[index];
    StepState& state = rank.steps[index];
    const std::int64_t allowed = Allowed(rank, index);
    if (allowed < 0 || (allowed == 0 && step.target.count > 0)) return moved;
    if (!state.header_done) {
      if (!HasRoom(*channel)) return moved;
      channel->items.push_back(kHeader);
      state.header_done = true;
      moved = true;
    }
    const std::int64_t begin = rank.layout.Address(step.target);
    while (state.processed < allowed && HasRoom(*channel)) {
      channel->items.push_back(rank.memory[begin + state.processed]);
      ++state.processed;
      moved = true;
    }
    if (state.processed < step.target.count) return moved;
    Complete(&rank, index, channel);
    ++channel->next_send;
  }
  return moved;
}

absl::Status SymbolicExecution::RunReceives(Channel* channel, bool* moved) {
  RankState& rank = ranks_[channel->to];
  while (channel->next_receive < channel->receives.size()) {
    const std::int32_t index = channel->receives[channel->next_receive];
    const Step& step = rank.schedule->steps[index];
    StepState& state = rank.steps[index];
    const std::int64_t allowed = Allowed(rank, index);
    if (allowed < 0) break;
    if (!state.header_done) {
      if (channel->head == channel->items.size()) break;
      ++channel->head;
      state.header_done = true;
      *moved = true;
    }
    while (state.processed < allowed && channel->head < channel->items.size()) {
      SHOAL_RETURN_IF_ERROR(
          Take(&rank, index, channel->items[channel->head++]));
      *moved = true;
    }
    if (state.processed < step.target.count) break;
    Complete(&rank, index, channel);
    ++channel->next_receive;
  }
  if (channel->head == channel->items.size()) {
    channel->items.clear();
    channel->head = 0;
  }
  return absl::OkStatus();
}

absl::Status SymbolicExecution::RunLocal(RankState* rank, std::int32_t step,
                                         bool* moved) {
  StepState& state = rank->steps[step];
  const Step& definition = rank->schedule->steps[step];
  if (state.complete) return absl::OkStatus();
  const std::int64_t allowed = Allowed(*rank, step);
  if (allowed < 0) return absl::OkStatus();
  while (state.processed < allowed) {
    if (definition.kind == StepKind::kFold) {
      SHOAL_RETURN_IF_ERROR(TakeFolded(rank, step));
    } else {
      const std::int64_t source = rank->layout.Address(definition.source);
      SHOAL_RETURN_IF_ERROR(
          Take(rank, step, rank->memory[source + state.processed]));
    }
    *moved = true;
  }
  if (state.processed < definition.target.count) return absl::OkStatus();
  *moved = true;
  Complete(rank, step, nullptr);
  return absl::OkStatus();
}

absl::Status SymbolicExecution::Combine(const RankState& rank,
                                        std::int32_t step, SymbolicValue second,
                                        SymbolicValue* first) const {
  if (first->expression < 0 || second.expression < 0 ||
      first->element != second.element) {
    return absl::InternalError(absl::StrCat(
        Place(rank.schedule->rank, step), " combines element ", first->element,
        " of the vector with element ", second.element));
  }
  first->expression =
      expressions_->Combine(first->expression, second.expression);
  return absl::OkStatus();
}

absl::Status SymbolicExecution::Take(RankState* rank, std::int32_t step,
                                     SymbolicValue received) {
  StepState& state = rank->steps[step];
  const Step& definition = rank->schedule->steps[step];
  SymbolicValue result = received;
  if (result.expression < 0) {
    return absl::InternalError(absl::StrCat(Place(rank->schedule->rank, step),
                                            " element ", state.processed,
                                            " takes what nobody ever wrote"));
  }
  if (definition.kind == StepKind::kReceiveReduce) {
    SymbolicValue local =
        rank->memory[rank->layout.Address(definition.source) + state.processed];
    // `result` is what comes first.
    if (definition.source_first) std::swap(local, result);
    SHOAL_RETURN_IF_ERROR(Combine(*rank, step, local, &result));
  }
  if (definition.completes) {
    result.expression = expressions_->Complete(result.expression);
  }
  rank->memory[rank->layout.Address(definition.target) + state.processed] =
      result;
  ++state.processed;
  return absl::OkStatus();
}

absl::Status SymbolicExecution::TakeFolded(RankState* rank, std::int32_t step) {
  StepState& state = rank->steps[step];
  const Step& definition = rank->schedule->steps[step];
  const auto operand = [&](std::size_t i) {
    return rank->memory[rank->layout.Address(definition.operands[i]) +
                        state.processed];
  };
  SymbolicValue result = operand(0);
  for (std::size_t i = 1; i < definition.operands.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(Combine(*rank, step, operand(i), &result));
  }
  if (definition.completes) {
    result.expression = expressions_->Complete(result.expression);
  }
  rank->memory[rank->layout.Address(definition.target) + state.processed] =
      result;
  ++state.processed;
  return absl::OkStatus();
}

// What holds in every order of events when the step is complete: what held at
// the end of the step that it comes after, and for a receive what the sender
// knew.
void SymbolicExecution::Complete(RankState* rank, std::int32_t step,
                                 const Channel* channel) {
  StepState& state = rank->steps[step];
  state.complete = true;
  if (rank->schedule->signature.kind != CallKind::kBarrier) return;
  state.known.assign(ranks_.size(), false);
  state.known[rank->schedule->rank] = true;
  const auto learn = [&](const StepState& other) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (other.known[r]) state.known[r] = true;
    }
  };
  const Step& definition = rank->schedule->steps[step];
  if (definition.after >= 0) learn(rank->steps[definition.after]);
  if (definition.kind == StepKind::kReceive) {
    learn(ranks_[channel->from].steps[channel->sends[channel->next_receive]]);
  }
}

std::vector<bool> SymbolicExecution::KnownToHaveEntered(int rank) const {
  std::vector<bool> known(ranks_.size(), false);
  known[rank] = true;
  for (const StepState& step : ranks_[rank].steps) {
    for (std::size_t r = 0; r < step.known.size(); ++r) {
      if (step.known[r]) known[r] = true;
    }
  }
  return known;
}

absl::Status SymbolicExecution::Unfinished() const {
  std::string blocked;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::vector<StepState>& steps = ranks_[r].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].complete) continue;
      absl::StrAppend(&blocked, blocked.empty() ? "" : "; ",
                      Place(static_cast<int>(r), static_cast<std::int32_t>(i)),
                      " at element ", steps[i].processed);
      break;
    }
  }
  if (blocked.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("deadlock with links of ",
                                          link_capacity_, " items: ", blocked));
}

}  // namespace shoal::internal
