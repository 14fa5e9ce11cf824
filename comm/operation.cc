// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/operation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fold.h"
#include "shoal/comm/reduce.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

bool WritesTarget(StepKind kind) { return kind != StepKind::kSend; }

// What a step reads besides its target.
absl::Span<const BufferRange> SourcesOf(const Step& step) {
  switch (step.kind) {
    case StepKind::kReceiveReduce:
    case StepKind::kCopy:
      return absl::MakeConstSpan(&step.source, 1);
    case StepKind::kFold:
      return step.operands;
    case StepKind::kSend:
    case StepKind::kReceive:
      break;
  }
  return {};
}

bool Overlap(const BufferRange& a, const BufferRange& b) {
  return a.buffer == b.buffer && a.begin < b.end() && b.begin < a.end();
}

// How far a step with `range` may go when an earlier one with the overlapping
// `earlier` has processed so many of its elements.
std::int64_t Bound(const BufferRange& range, const BufferRange& earlier,
                   std::int64_t processed) {
  return earlier.begin + processed - range.begin;
}

}  // namespace

void Operation::Start(std::uint64_t id,
                      std::shared_ptr<const Schedule> schedule,
                      const Call& call) {
  id_ = id;
  schedule_ = std::move(schedule);
  element_size_ = DTypeSize(schedule_->signature.dtype);
  // Only steps of an operation in place write to its input, which then is its
  // output.
  input_ = const_cast<char*>(static_cast<const char*>(call.input));
  output_ = static_cast<char*>(call.output);
  user_reduction_ = call.user_reduction;
  cursors_.assign(schedule_->steps.size(), Cursor());
  steps_left_ = static_cast<int>(schedule_->steps.size());
}

bool Operation::ReserveScratch() {
  if (scratch_.size() >= scratch_bytes()) return true;
  try {
    scratch_.resize(scratch_bytes());
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::length_error&) {
    return false;
  }
  return true;
}

void Operation::Clear() { schedule_.reset(); }

char* Operation::At(const BufferRange& range) {
  char* base = nullptr;
  switch (range.buffer) {
    case BufferId::kInput:
      base = input_;
      break;
    case BufferId::kOutput:
      base = output_;
      break;
    case BufferId::kScratch:
      base = scratch_.data();
      break;
  }
  return base + range.begin * element_size_;
}

std::int64_t Operation::Allowed(int index) const {
  const Step& later = step(index);
  if (later.after >= 0 && !cursors_[later.after].complete) return -1;
  std::int64_t allowed = later.target.count;
  for (const std::int32_t earlier_index : later.depends_on) {
    const Step& earlier = step(earlier_index);
    const std::int64_t processed = cursors_[earlier_index].processed;
    if (processed == earlier.target.count) continue;
    const auto limit = [&](const BufferRange& range,
                           const BufferRange& earlier_range) {
      if (!Overlap(range, earlier_range)) return;
      allowed = std::min(allowed, Bound(range, earlier_range, processed));
    };
    if (WritesTarget(earlier.kind) || WritesTarget(later.kind)) {
      limit(later.target, earlier.target);
    }
    if (WritesTarget(earlier.kind)) {
      for (const BufferRange& source : SourcesOf(later)) {
        limit(source, earlier.target);
      }
    }
    if (WritesTarget(later.kind)) {
      for (const BufferRange& source : SourcesOf(earlier)) {
        limit(later.target, source);
      }
    }
  }
  return std::max<std::int64_t>(allowed, 0);
}

void Operation::CompleteStep(int index) {
  cursors_[index].complete = true;
  --steps_left_;
}

void Operation::Reduce(int index, const char* received, std::int64_t count) {
  const Step& step = this->step(index);
  const std::size_t begin = cursors_[index].processed * element_size_;
  const CallSignature& signature = schedule_->signature;
  char* const target = Target(index) + begin;
  const char* const source = Source(index) + begin;
  const char* const first = step.source_first ? source : received;
  const char* const second = step.source_first ? received : source;
  if (signature.op == ReduceOp::kUser) {
    (*user_reduction_)(first, second, target, count);
  } else {
    internal::Reduce(signature.dtype, signature.op, first, second, target,
                     count);
  }
  Advance(index, count);
}

void Operation::RunLocal(int index, std::int64_t count) {
  if (step(index).kind == StepKind::kFold) {
    Fold(index, count);
  } else {
    Copy(index, count);
  }
}

// Completes as it goes.
void Operation::Fold(int index, std::int64_t count) {
  const Step& step = this->step(index);
  const std::size_t begin = cursors_[index].processed * element_size_;
  operands_.clear();
  for (const BufferRange& operand : step.operands) {
    operands_.push_back(At(operand) + begin);
  }
  FoldOptions options;
  options.dtype = schedule_->signature.dtype;
  options.op = schedule_->signature.op;
  options.user_reduction = user_reduction_;
  options.completes = step.completes;
  options.world_size = schedule_->world_size;
  FoldReduce(options, operands_, Target(index) + begin, count);
  cursors_[index].processed += count;
}

void Operation::Copy(int index, std::int64_t count) {
  const std::size_t begin = cursors_[index].processed * element_size_;
  char* const target = Target(index) + begin;
  const char* const source = Source(index) + begin;
  if (target != source && count > 0) {
    std::memmove(target, source, count * element_size_);
  }
  Advance(index, count);
}

// While the elements are still in cache.
void Operation::Advance(int index, std::int64_t count) {
  const std::int64_t begin = cursors_[index].processed;
  if (step(index).completes && count > 0) {
    FinishReduce(schedule_->signature.dtype, schedule_->signature.op,
                 Target(index) + begin * element_size_, count,
                 schedule_->world_size);
  }
  cursors_[index].processed = begin + count;
}

std::string Operation::ToString() const {
  return absl::StrCat(schedule_->CallText(), " #", id_);
}

void Operation::AppendState(std::string* state) const {
  absl::StrAppend(state, "#", id_, ":");
  for (const Cursor& cursor : cursors_) {
    absl::StrAppend(state, cursor.complete ? "c" : "", cursor.processed, ",");
  }
  state->append(scratch_.data(), scratch_bytes());
}

std::uint32_t OperationTable::Start(std::shared_ptr<const Schedule> schedule,
                                    const Call& call) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot].Start(next_id_, std::move(schedule), call);
  entries_.PushBack({.slot = slot});
  ++next_id_;
  if (slots_[slot].steps_left() == 0 && failure_.ok()) CompleteOperation(slot);
  return slot;
}

void OperationTable::CompleteStep(std::uint32_t slot, int step) {
  slots_[slot].CompleteStep(step);
  if (slots_[slot].steps_left() > 0) return;
  CompleteOperation(slot);
}

void OperationTable::CompleteOperation(std::uint32_t slot) {
  Find(slots_[slot].id())->complete = true;
  while (last_completed_ + 1 < next_id_ &&
         Find(last_completed_ + 1)->complete) {
    ++last_completed_;
  }
}

OperationTable::Entry* OperationTable::Find(std::uint64_t id) {
  const std::uint64_t first = next_id_ - entries_.size();
  if (id < first || id >= next_id_) return nullptr;
  return &entries_[id - first];
}

const OperationTable::Entry* OperationTable::Find(std::uint64_t id) const {
  return const_cast<OperationTable*>(this)->Find(id);
}

bool OperationTable::IsDone(std::uint64_t id) const {
  const Entry* const entry = Find(id);
  return entry == nullptr || entry->complete || !failure_.ok();
}

absl::Status OperationTable::result(std::uint64_t id) const {
  const Entry* const entry = Find(id);
  if (entry == nullptr || entry->forgotten) {
    return absl::InternalError(
        absl::StrCat("operation #", id, " was never started, or forgotten"));
  }
  return entry->complete ? absl::OkStatus() : failure_;
}

void OperationTable::Forget(std::uint64_t id) {
  Entry* const entry = Find(id);
  if (entry == nullptr || entry->forgotten) return;
  entry->forgotten = true;
  slots_[entry->slot].Clear();
  free_slots_.push_back(entry->slot);
  while (!entries_.empty() && entries_.front().forgotten) entries_.PopFront();
}

const Operation* OperationTable::oldest_unfinished() const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].complete && !entries_[i].forgotten) {
      return &slots_[entries_[i].slot];
    }
  }
  return nullptr;
}

void OperationTable::AppendState(std::string* state) const {
  absl::StrAppend(state, "ops ", next_id_, " ", last_completed_, " ",
                  static_cast<int>(failure_.code()), " ");
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.forgotten) {
      state->append("f");
    } else if (entry.complete) {
      state->append("c");
    } else {
      slots_[entry.slot].AppendState(state);
    }
  }
}

}  // namespace shoal::internal
