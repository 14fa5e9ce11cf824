// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/schedule_verifier.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/symbolic_execution.h"
#include "shoal/comm/symbolic_expression.h"

namespace shoal::internal {
namespace {

// What a step reads besides its target.
std::vector<BufferRange> SourcesOf(const Step& step) {
  if (step.kind == StepKind::kFold) return step.operands;
  if (step.kind == StepKind::kReceiveReduce || step.kind == StepKind::kCopy) {
    return {step.source};
  }
  return {};
}

template <typename... Parts>
absl::Status Error(int rank, std::size_t step, const Parts&... parts) {
  return absl::InternalError(
      absl::StrCat("rank ", rank, " step ", step, " ", parts...));
}

// Of one rank's memory, so that elements of 100 ranks have different numbers.
constexpr std::int32_t kMostElements = 1 << 24;

// Form.

absl::Status CheckRange(const Schedule& schedule, std::size_t step,
                        const BufferRange& range) {
  const std::int64_t size =
      range.buffer == BufferId::kInput    ? schedule.input_count
      : range.buffer == BufferId::kOutput ? schedule.output_count
                                          : schedule.scratch_count;
  if (range.begin < 0 || range.count < 0 || range.end() > size) {
    return Error(schedule.rank, step, "leaves its buffer: [", range.begin, ", ",
                 range.end(), ") of ", size, " elements");
  }
  return absl::OkStatus();
}

absl::Status CheckStep(const Schedule& schedule, const MemoryLayout& layout,
                       std::size_t index) {
  const Step& step = schedule.steps[index];
  const int rank = schedule.rank;
  SHOAL_RETURN_IF_ERROR(CheckRange(schedule, index, step.target));
  if (!IsLocal(step.kind) &&
      (step.peer < 0 || step.peer >= schedule.world_size ||
       step.peer == rank)) {
    return Error(rank, index, "has the impossible peer ", step.peer);
  }
  if (step.kind != StepKind::kSend && step.target.buffer == BufferId::kInput) {
    return Error(rank, index, "writes to the input");
  }
  const std::vector<BufferRange> sources = SourcesOf(step);
  if (step.completes && sources.empty()) {
    return Error(rank, index, "completes, but does not compute");
  }
  if (step.kind == StepKind::kFold && sources.size() < 2) {
    return Error(rank, index, "folds ", sources.size(), " operands");
  }
  const std::int32_t position = static_cast<std::int32_t>(index);
  if (step.after < -1 || step.after >= position) {
    return Error(rank, index, "comes after step ", step.after);
  }
  for (const std::int32_t earlier : step.depends_on) {
    if (earlier < 0 || earlier >= position) {
      return Error(rank, index, "depends on step ", earlier);
    }
  }
  for (const BufferRange& source : sources) {
    SHOAL_RETURN_IF_ERROR(CheckRange(schedule, index, source));
    if (source.count != step.target.count) {
      return Error(rank, index, "has ", source.count,
                   " elements of source for ", step.target.count, " of target");
    }
    // A shifted overlap would read elements that the step itself has written.
    const std::int64_t shift =
        layout.Address(source) - layout.Address(step.target);
    if (shift != 0 && std::max(shift, -shift) < step.target.count) {
      return Error(rank, index, "overlaps its own source by a shift");
    }
  }
  return absl::OkStatus();
}

// By (sender, receiver): the lengths of the messages in order.
using Messages = std::map<std::pair<int, int>, std::vector<std::int64_t>>;

absl::Status CheckMessages(absl::Span<const Schedule> schedules) {
  Messages sent;
  Messages received;
  for (const Schedule& schedule : schedules) {
    for (const Step& step : schedule.steps) {
      if (IsLocal(step.kind)) continue;
      if (step.kind == StepKind::kSend) {
        sent[{schedule.rank, step.peer}].push_back(step.target.count);
      } else {
        received[{step.peer, schedule.rank}].push_back(step.target.count);
      }
    }
  }
  for (Messages* messages : {&sent, &received}) {
    for (const auto& [ranks, unused] : *messages) {
      const std::vector<std::int64_t>& there = sent[ranks];
      const std::vector<std::int64_t>& here = received[ranks];
      if (there == here) continue;
      return absl::InternalError(absl::StrCat(
          "the messages from rank ", ranks.first, " to rank ", ranks.second,
          " do not match: ", there.size(), " are sent, ", here.size(),
          " are received, or their lengths differ"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckForm(absl::Span<const Schedule> schedules,
                       const std::vector<MemoryLayout>& layouts) {
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    const Schedule& schedule = schedules[r];
    if (schedule.rank != static_cast<int>(r) ||
        schedule.world_size != static_cast<int>(schedules.size()) ||
        schedule.signature != schedules[0].signature) {
      return absl::InternalError(
          absl::StrCat("schedule ", r, " is not one of this collective"));
    }
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      SHOAL_RETURN_IF_ERROR(CheckStep(schedule, layouts[r], i));
    }
  }
  return CheckMessages(schedules);
}

// Order.

// One step's hold on a piece of memory.
struct Touch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int32_t step = 0;
  // By which names it is read and written; bits by BufferId.
  unsigned reads = 0;
  unsigned writes = 0;
};

std::vector<Touch> TouchesOf(const Schedule& schedule,
                             const MemoryLayout& layout) {
  std::vector<Touch> touches;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.target.count == 0) continue;
    Touch touch;
    touch.step = static_cast<std::int32_t>(i);
    touch.begin = layout.Address(step.target);
    touch.end = touch.begin + step.target.count;
    const unsigned name = 1u << static_cast<int>(step.target.buffer);
    (step.kind == StepKind::kSend ? touch.reads : touch.writes) = name;
    for (const BufferRange& range : SourcesOf(step)) {
      const std::int64_t source = layout.Address(range);
      const unsigned source_name = 1u << static_cast<int>(range.buffer);
      if (source == touch.begin) {
        touch.reads |= source_name;
      } else {
        touches.push_back(
            {source, source + range.count, touch.step, source_name, 0});
      }
    }
    touches.push_back(touch);
  }
  return touches;
}

// Row b, bit a: at the element under consideration b is certainly processed
// after a.
class WaitMatrix {
 public:
  void Reset(std::size_t size) {
    words_ = size / 64 + 1;
    bits_.assign(size * words_, 0);
  }
  void Add(std::size_t b, std::size_t a) {
    bits_[b * words_ + a / 64] |= std::uint64_t{1} << (a % 64);
    for (std::size_t i = 0; i < words_; ++i) {
      bits_[b * words_ + i] |= bits_[a * words_ + i];
    }
  }
  bool Contains(std::size_t b, std::size_t a) const {
    return (bits_[b * words_ + a / 64] >> (a % 64) & 1) != 0;
  }

 private:
  std::size_t words_ = 0;
  std::vector<std::uint64_t> bits_;
};

// All `touches` share an element of memory. A step waits there for another if
// it depends on it and both name the element alike: so the engine compares
// cursors. What it enforces is transitive.
absl::Status CheckOrderAtElement(const Schedule& schedule,
                                 const std::vector<const Touch*>& touches,
                                 WaitMatrix* waits) {
  waits->Reset(touches.size());
  for (std::size_t b = 0; b < touches.size(); ++b) {
    const Touch& later = *touches[b];
    for (const std::int32_t step : schedule.steps[later.step].depends_on) {
      const auto found = std::lower_bound(
          touches.begin(), touches.end(), step,
          [](const Touch* touch, std::int32_t s) { return touch->step < s; });
      if (found == touches.end() || (*found)->step != step) continue;
      const Touch& earlier = **found;
      if ((earlier.writes & (later.reads | later.writes)) != 0 ||
          (earlier.reads & later.writes) != 0) {
        waits->Add(b, found - touches.begin());
      }
    }
    for (std::size_t a = 0; a < b; ++a) {
      const bool conflict = touches[a]->writes != 0 || later.writes != 0;
      if (!conflict || waits->Contains(b, a)) continue;
      return Error(schedule.rank, later.step, "does not wait for step ",
                   touches[a]->step, " where both touch the same memory");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOrder(const Schedule& schedule, const MemoryLayout& layout) {
  const std::vector<Touch> touches = TouchesOf(schedule, layout);
  std::vector<std::int64_t> ends;
  for (const Touch& touch : touches) {
    ends.push_back(touch.begin);
    ends.push_back(touch.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  // Between two neighbouring ends all elements are touched alike.
  std::vector<std::vector<const Touch*>> segments(ends.size());
  for (const Touch& touch : touches) {
    const auto first = std::lower_bound(ends.begin(), ends.end(), touch.begin);
    for (std::size_t i = first - ends.begin(); ends[i] < touch.end; ++i) {
      segments[i].push_back(&touch);
    }
  }
  WaitMatrix waits;
  for (const std::vector<const Touch*>& here : segments) {
    SHOAL_RETURN_IF_ERROR(CheckOrderAtElement(schedule, here, &waits));
  }
  return absl::OkStatus();
}

// Data. What docs/architecture.md promises, written down once more.

ExpressionId RingFold(int world_size, int chunk, ExpressionTable* table) {
  ExpressionId sum = table->Operand((chunk + 1) % world_size);
  for (int i = 2; i <= world_size; ++i) {
    sum = table->Combine(sum, table->Operand((chunk + i) % world_size));
  }
  return sum;
}

// The balanced tree after the first pairs have been folded.
ExpressionId FoldedTree(int world_size, ExpressionTable* table) {
  int power = 1;
  while (2 * power <= world_size) power *= 2;
  std::vector<ExpressionId> sums;
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank < 2 * (world_size - power)) {
      sums.push_back(
          table->Combine(table->Operand(rank), table->Operand(rank + 1)));
      ++rank;
    } else {
      sums.push_back(table->Operand(rank));
    }
  }
  while (sums.size() > 1) {
    std::vector<ExpressionId> next;
    for (std::size_t i = 0; i < sums.size(); i += 2) {
      next.push_back(table->Combine(sums[i], sums[i + 1]));
    }
    sums = std::move(next);
  }
  return sums[0];
}

// Ranks [begin, end), cut at the largest power of two below their number.
ExpressionId BalancedTree(int begin, int end, ExpressionTable* table) {
  if (end - begin == 1) return table->Operand(begin);
  int power = 1;
  while (2 * power < end - begin) power *= 2;
  return table->Combine(BalancedTree(begin, begin + power, table),
                        BalancedTree(begin + power, end, table));
}

ExpressionId Ascending(int world_size, ExpressionTable* table) {
  ExpressionId sum = table->Operand(0);
  for (int rank = 1; rank < world_size; ++rank) {
    sum = table->Combine(sum, table->Operand(rank));
  }
  return sum;
}

// The whole sum of an element in part `part` of the vector (or, of a chain, for
// the root `part`).
ExpressionId Sum(Algorithm algorithm, int world_size, int part,
                 ExpressionTable* table) {
  if (world_size == 1) return table->Operand(0);
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kChain:
      return table->Complete(RingFold(world_size, part, table));
    case Algorithm::kRecursiveDoubling:
    case Algorithm::kHalvingDoubling:
      return table->Complete(FoldedTree(world_size, table));
    case Algorithm::kTree:
      return table->Complete(BalancedTree(0, world_size, table));
    default:
      return table->Complete(Ascending(world_size, table));
  }
}

bool OrderDependsOnPart(Algorithm algorithm) {
  return algorithm == Algorithm::kRing;
}

// For every element of a reduced vector, what has to come out.
std::vector<ExpressionId> ReducedVector(const CallSignature& signature,
                                        int world_size,
                                        ExpressionTable* table) {
  std::vector<ExpressionId> expected;
  const bool scattered = signature.kind == CallKind::kReduceScatter;
  if (!scattered && !OrderDependsOnPart(signature.algorithm)) {
    expected.assign(signature.count, Sum(signature.algorithm, world_size,
                                         signature.root, table));
    return expected;
  }
  for (int part = 0; part < world_size; ++part) {
    const std::int64_t longer = part < signature.count % world_size;
    expected.insert(
        expected.end(),
        scattered ? signature.count : signature.count / world_size + longer,
        Sum(signature.algorithm, world_size, part, table));
  }
  return expected;
}

// The element of rank `from`'s input with this index: elements of different
// ranks are different ones unless they are to be reduced.
SymbolicValue InputElement(const Schedule& from, std::int64_t index,
                           const ExpressionTable& table) {
  const std::int32_t element = static_cast<std::int32_t>(index);
  if (HasReduction(from.signature.kind)) {
    return {table.Operand(from.rank), element};
  }
  return {table.Operand(from.rank), from.rank * kMostElements + element};
}

std::int64_t SumOf(absl::Span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// Appends elements [begin, begin + count) of a rank's input.
void AppendInput(const Schedule& from, std::int64_t begin, std::int64_t count,
                 const ExpressionTable& table,
                 std::vector<SymbolicValue>* output) {
  for (std::int64_t i = 0; i < count; ++i) {
    output->push_back(InputElement(from, begin + i, table));
  }
}

// What a collective that only moves data has to leave in a rank's output.
std::vector<SymbolicValue> MovedOutput(absl::Span<const Schedule> schedules,
                                       int rank, const ExpressionTable& table) {
  const CallSignature& signature = schedules[rank].signature;
  const std::int64_t count = signature.count;
  const Schedule& root = schedules[signature.root];
  std::vector<SymbolicValue> output;
  switch (signature.kind) {
    case CallKind::kBroadcast:
      AppendInput(root, 0, count, table, &output);
      break;
    case CallKind::kScatter:
      AppendInput(root, rank * count, count, table, &output);
      break;
    case CallKind::kGather:
      if (rank != signature.root) break;
      [[fallthrough]];
    case CallKind::kAllGather:
    case CallKind::kAllGatherV:
      for (const Schedule& from : schedules) {
        AppendInput(from, 0, from.input_count, table, &output);
      }
      break;
    case CallKind::kAllToAll:
      for (const Schedule& from : schedules) {
        AppendInput(from, rank * count, count, table, &output);
      }
      break;
    case CallKind::kAllToAllV:
      for (const Schedule& from : schedules) {
        const absl::Span<const std::int64_t> sent = from.counts;
        AppendInput(from, SumOf(sent.subspan(0, rank)), sent[rank], table,
                    &output);
      }
      break;
    default:
      break;
  }
  return output;
}

// What a collective that reduces has to leave in a rank's output.
std::vector<SymbolicValue> ReducedOutput(
    const Schedule& schedule, const std::vector<ExpressionId>& reduced) {
  const CallSignature& signature = schedule.signature;
  const std::int64_t begin = signature.kind == CallKind::kReduceScatter
                                 ? schedule.rank * signature.count
                                 : 0;
  std::vector<SymbolicValue> output;
  if (signature.kind == CallKind::kReduce && schedule.rank != signature.root) {
    return output;
  }
  for (std::int64_t i = begin; i < begin + signature.count; ++i) {
    output.push_back({reduced[i], static_cast<std::int32_t>(i)});
  }
  return output;
}

// Why `actual` is not what it should be, in the plainest words that fit.
std::string Difference(ExpressionId expected, ExpressionId actual, bool reduces,
                       const ExpressionTable& table) {
  const std::string text = absl::StrCat(table.ToString(actual), " in place of ",
                                        table.ToString(expected));
  if (!reduces) return text;
  const std::vector<int> times = table.Contributions(actual);
  for (std::size_t r = 0; r < times.size(); ++r) {
    if (times[r] != 1) {
      return absl::StrCat("the operand of rank ", r, " is contained ", times[r],
                          " times: ", text);
    }
  }
  if (table.Completions(actual) != 1) {
    return absl::StrCat("it is completed ", table.Completions(actual),
                        " times: ", text);
  }
  return absl::StrCat("the operands are in another order: ", text);
}

void FillMemory(const Schedule& schedule, const MemoryLayout& layout,
                const ExpressionTable& table, SymbolicExecution* execution) {
  for (std::int64_t i = 0; i < schedule.input_count; ++i) {
    execution->SetMemory(schedule.rank, layout.input_begin + i,
                         InputElement(schedule, i, table));
  }
}

absl::Status CheckResult(const Schedule& schedule, const MemoryLayout& layout,
                         const std::vector<SymbolicValue>& expected,
                         const SymbolicExecution& execution,
                         const ExpressionTable& table) {
  if (static_cast<std::int64_t>(expected.size()) != schedule.output_count) {
    return absl::InternalError(absl::StrCat(
        "rank ", schedule.rank, " has an output of ", schedule.output_count,
        " elements in place of ", expected.size()));
  }
  for (std::int64_t i = 0; i < schedule.output_count; ++i) {
    const SymbolicValue value =
        execution.memory(schedule.rank, layout.output_begin + i);
    if (value == expected[i]) continue;
    const std::string place =
        absl::StrCat("rank ", schedule.rank, " output element ", i, ": ");
    if (value.expression < 0) {
      return absl::InternalError(absl::StrCat(place, "was never written"));
    }
    if (value.expression == expected[i].expression ||
        HasReduction(schedule.signature.kind) !=
            (value.element == expected[i].element)) {
      return absl::InternalError(
          absl::StrCat(place, "holds what belongs to element ", value.element,
                       " and not ", expected[i].element));
    }
    return absl::InternalError(absl::StrCat(
        place, Difference(expected[i].expression, value.expression,
                          HasReduction(schedule.signature.kind), table)));
  }
  return absl::OkStatus();
}

absl::Status CheckBarrier(const SymbolicExecution& execution, int world_size) {
  for (int rank = 0; rank < world_size; ++rank) {
    const std::vector<bool> known = execution.KnownToHaveEntered(rank);
    for (int other = 0; other < world_size; ++other) {
      if (!known[other]) {
        return absl::InternalError(absl::StrCat(
            "rank ", rank, " may leave before rank ", other, " has entered"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunAndCheck(absl::Span<const Schedule> schedules,
                         const std::vector<MemoryLayout>& layouts,
                         std::int64_t link_capacity) {
  const int world_size = static_cast<int>(schedules.size());
  ExpressionTable table(world_size);
  SymbolicExecution execution(schedules, layouts, link_capacity, &table);
  for (int rank = 0; rank < world_size; ++rank) {
    FillMemory(schedules[rank], layouts[rank], table, &execution);
  }
  SHOAL_RETURN_IF_ERROR(execution.Run());
  const CallSignature& signature = schedules[0].signature;
  if (signature.kind == CallKind::kBarrier) {
    return CheckBarrier(execution, world_size);
  }
  std::vector<ExpressionId> reduced;
  if (HasReduction(signature.kind)) {
    reduced = ReducedVector(signature, world_size, &table);
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const std::vector<SymbolicValue> expected =
        HasReduction(signature.kind) ? ReducedOutput(schedules[rank], reduced)
                                     : MovedOutput(schedules, rank, table);
    SHOAL_RETURN_IF_ERROR(CheckResult(schedules[rank], layouts[rank], expected,
                                      execution, table));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifySchedules(absl::Span<const Schedule> schedules,
                             const std::vector<bool>& in_place,
                             absl::Span<const std::int64_t> link_capacities) {
  const int world_size = static_cast<int>(schedules.size());
  std::vector<MemoryLayout> layouts;
  for (int rank = 0; rank < world_size; ++rank) {
    layouts.push_back(MemoryLayout::Of(schedules[rank], in_place[rank]));
    if (layouts.back().size > kMostElements) {
      return absl::InternalError(absl::StrCat(
          "too long to be verified: ", layouts.back().size, " elements"));
    }
  }
  SHOAL_RETURN_IF_ERROR(CheckForm(schedules, layouts));
  for (int rank = 0; rank < world_size; ++rank) {
    SHOAL_RETURN_IF_ERROR(CheckOrder(schedules[rank], layouts[rank]));
  }
  for (const std::int64_t capacity : link_capacities) {
    SHOAL_RETURN_IF_ERROR(RunAndCheck(schedules, layouts, capacity));
  }
  return absl::OkStatus();
}

absl::Status VerifyCollective(const CallSignature& signature, int world_size,
                              bool in_place,
                              absl::Span<const std::int64_t> link_capacities) {
  return VerifyCollective(
      signature, [](int /*rank*/) { return std::vector<std::int64_t>(); },
      world_size, in_place, link_capacities);
}

absl::Status VerifyCollective(
    const CallSignature& signature,
    absl::FunctionRef<std::vector<std::int64_t>(int)> counts_of, int world_size,
    bool in_place, absl::Span<const std::int64_t> link_capacities) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world_size; ++rank) {
    SHOAL_ASSIGN_OR_RETURN(Schedule schedule,
                           BuildSchedule({signature, counts_of(rank), rank,
                                          world_size, in_place}));
    schedules.push_back(std::move(schedule));
  }
  return VerifySchedules(schedules, std::vector<bool>(world_size, in_place),
                         link_capacities);
}

}  // namespace shoal::internal
