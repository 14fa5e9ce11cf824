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
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/encoding.h"
#include "shoal/comm/fold.h"
#include "shoal/comm/half_conversion.h"
#include "shoal/comm/reduce.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/wire_format.h"

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
  const CallSignature& signature = schedule_->signature;
  memory_dtype_ = signature.dtype;
  if (signature.wire == WireFormat::kF32) memory_dtype_ = DType::kF32;
  element_size_ = DTypeSize(memory_dtype_);
  encoding_ = signature.wire == WireFormat::kBF16
                  ? Encoding::RoundedTo(DType::kBF16)
              : signature.wire == WireFormat::kQ8_0
                  ? Encoding::Q8_0()
                  : Encoding::AsTheyAre(memory_dtype_);
  // Only steps of an operation in place write to its input, which then is its
  // output.
  input_ = const_cast<char*>(static_cast<const char*>(call.input));
  output_ = static_cast<char*>(call.output);
  user_reduction_ = call.user_reduction;
  PlanCopies(call);
  cursors_.assign(schedule_->steps.size(), Cursor());
  steps_left_ = static_cast<int>(schedule_->steps.size());
}

bool Operation::IsInPlace(const Call& call) const {
  const auto input = reinterpret_cast<std::uintptr_t>(call.input);
  const auto output = reinterpret_cast<std::uintptr_t>(call.output);
  const std::size_t input_bytes =
      schedule_->input_count * DTypeSize(schedule_->signature.dtype);
  return output == input || (output > input && output < input + input_bytes);
}

// In these a rank combines its own operand with others' where others combine
// what it has sent them: it has to be the same.
bool Operation::RoundsOperands() const {
  const Algorithm algorithm = schedule_->signature.algorithm;
  return !encoding_.IsAsTheyAre() && schedule_->world_size > 1 &&
         (algorithm == Algorithm::kRecursiveDoubling ||
          algorithm == Algorithm::kOneShot);
}

// Whether what is complete is passed on in a form that may change it.
bool Operation::RoundsResult() const {
  return !encoding_.IsAsTheyAre() &&
         schedule_->signature.kind == CallKind::kAllReduce &&
         schedule_->signature.algorithm != Algorithm::kOneShot;
}

void Operation::PlanCopies(const Call& call) {
  copied_count_ = 0;
  output_copy_at_ = -1;
  const bool in_place = IsInPlace(call);
  if (schedule_->signature.wire == WireFormat::kF32) {
    copied_count_ = schedule_->input_count;
    output_copy_at_ = copied_count_;
    if (!in_place) {
      copied_count_ += schedule_->output_count;
    } else {
      output_copy_at_ =
          static_cast<std::int64_t>((static_cast<const char*>(call.output) -
                                     static_cast<const char*>(call.input)) /
                                    DTypeSize(schedule_->signature.dtype));
    }
  } else if (RoundsOperands() && !in_place) {
    copied_count_ = schedule_->input_count;
  }
}

void Operation::FillCopies() {
  const std::int64_t count = schedule_->input_count;
  if (in_float()) {
    WidenHalves(schedule_->signature.dtype, input_, Input(), count);
  } else if (copied_count_ > 0) {
    std::memcpy(Input(), input_, copied_bytes());
  }
  if (RoundsOperands()) encoding_.RoundTrip(Input(), count);
}

bool Operation::PrepareMemory() {
  try {
    if (scratch_.size() < scratch_bytes()) scratch_.resize(scratch_bytes());
    const auto copied = static_cast<std::size_t>(copied_count_);
    if (copies_.size() < copied) copies_.resize(copied);
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::length_error&) {
    return false;
  }
  FillCopies();
  return true;
}

// Without steps nothing was computed: the output is the input.
void Operation::Finish() {
  if (!in_float() || schedule_->steps.empty()) return;
  RoundToHalves(schedule_->signature.dtype, Output(), output_,
                schedule_->output_count);
}

void Operation::Clear() { schedule_.reset(); }

char* Operation::Input() {
  return copied_count_ > 0 ? reinterpret_cast<char*>(copies_.data()) : input_;
}

char* Operation::Output() {
  return in_float() ? reinterpret_cast<char*>(copies_.data() + output_copy_at_)
                    : output_;
}

char* Operation::At(const BufferRange& range) {
  char* base = nullptr;
  switch (range.buffer) {
    case BufferId::kInput:
      base = Input();
      break;
    case BufferId::kOutput:
      base = Output();
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
  allowed = std::max<std::int64_t>(allowed, 0);
  return allowed == later.target.count
             ? allowed
             : allowed - allowed % encoding_.unit_elements();
}

void Operation::CompleteStep(int index) {
  cursors_[index].complete = true;
  --steps_left_;
}

void Operation::Reduce(int index, const char* received, std::int64_t count) {
  if (encoding_.IsAsTheyAre()) return ReduceDecoded(index, received, count);
  constexpr std::int64_t kAtOnce = 1024;  // whole units, and in cache
  float decoded[kAtOnce];
  while (count > 0) {
    const std::int64_t n = std::min(count, kAtOnce);
    encoding_.Decode(received, n, decoded);
    ReduceDecoded(index, reinterpret_cast<const char*>(decoded), n);
    received += encoding_.Bytes(n);
    count -= n;
  }
}

void Operation::Decode(int index, const char* received, std::int64_t count) {
  encoding_.Decode(received, count,
                   Target(index) + cursors_[index].processed * element_size_);
  cursors_[index].processed += count;
}

// What is sent is also kept in the form in which it arrives. A caller's input
// is not written to; then it is not used again.
void Operation::Encode(int index, std::int64_t count, char* bytes) {
  char* const elements =
      Target(index) + cursors_[index].processed * element_size_;
  encoding_.Encode(elements, count, bytes);
  if (step(index).target.buffer != BufferId::kInput) {
    encoding_.Decode(bytes, count, elements);
  }
  cursors_[index].processed += count;
}

void Operation::ReduceDecoded(int index, const char* received,
                              std::int64_t count) {
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
    internal::Reduce(memory_dtype_, signature.op, first, second, target, count);
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
  options.dtype = memory_dtype_;
  options.op = schedule_->signature.op;
  options.user_reduction = user_reduction_;
  options.completes = step.completes;
  options.world_size = schedule_->world_size;
  FoldReduce(options, operands_, Target(index) + begin, count);
  if (step.completes && RoundsResult()) {
    encoding_.RoundTrip(Target(index) + begin, count);
  }
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
    char* const completed = Target(index) + begin * element_size_;
    FinishReduce(memory_dtype_, schedule_->signature.op, completed, count,
                 schedule_->world_size);
    if (RoundsResult()) encoding_.RoundTrip(completed, count);
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
  state->append(reinterpret_cast<const char*>(copies_.data()), copied_bytes());
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
  slots_[slot].Finish();
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
