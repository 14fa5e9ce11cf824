// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/schedule.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule_builders.h"

namespace shoal::internal {
namespace {

constexpr int kBuffers = 3;

absl::string_view BufferName(BufferId buffer) {
  switch (buffer) {
    case BufferId::kInput:
      return "input";
    case BufferId::kOutput:
      return "output";
    case BufferId::kScratch:
      return "scratch";
  }
  return "unknown buffer";
}

std::string RangeText(const BufferRange& range) {
  return absl::StrCat(BufferName(range.buffer), "[", range.begin, ", ",
                      range.end(), ")");
}

std::string StepText(const Step& step) {
  const std::string target = RangeText(step.target);
  std::string text;
  switch (step.kind) {
    case StepKind::kSend:
      text = absl::StrCat("send ", target, " to rank ", step.peer);
      break;
    case StepKind::kReceive:
      text = absl::StrCat("receive ", target, " from rank ", step.peer);
      break;
    case StepKind::kReceiveReduce: {
      const std::string received = absl::StrCat("(from rank ", step.peer, ")");
      const std::string source = RangeText(step.source);
      text = absl::StrCat(target, " = ", step.source_first ? source : received,
                          " op ", step.source_first ? received : source);
      break;
    }
    case StepKind::kCopy:
      text = absl::StrCat(target, " = ", RangeText(step.source));
      break;
  }
  if (step.completes) absl::StrAppend(&text, ", completes");
  if (step.after >= 0) absl::StrAppend(&text, ", after ", step.after);
  return text;
}

absl::Status Refusal(const CallSignature& signature, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(signature.ToString(), ": ", why));
}

absl::Status Check(const CallSignature& signature, int rank, int world_size) {
  if (world_size < 1) {
    return Refusal(signature, absl::StrCat("a world of ", world_size,
                                           " ranks; it needs at least 1"));
  }
  const std::string ranks =
      absl::StrCat("the world's ranks are 0 to ", world_size - 1);
  if (rank < 0 || rank >= world_size) {
    return Refusal(signature, absl::StrCat("rank ", rank, "; ", ranks));
  }
  if (signature.root < 0 || signature.root >= world_size) {
    return Refusal(signature,
                   absl::StrCat("root ", signature.root, "; ", ranks));
  }
  if (!IsValidDType(signature.dtype) || !IsValidReduceOp(signature.op)) {
    return Refusal(signature, "unknown element type or reduction");
  }
  if (signature.count < 0) {
    return Refusal(signature, absl::StrCat("negative count ", signature.count));
  }
  const std::int64_t largest =
      std::numeric_limits<std::int64_t>::max() /
      static_cast<std::int64_t>(DTypeSize(signature.dtype));
  if (signature.count > largest / world_size) {
    return Refusal(signature,
                   absl::StrCat("count ", signature.count, " x ", world_size,
                                " ranks overflows 64 bits"));
  }
  return absl::OkStatus();
}

// A world of one.
void AddLocalCopy(bool in_place, Schedule* schedule) {
  const CallKind kind = schedule->signature.kind;
  if (in_place || kind == CallKind::kBroadcast || kind == CallKind::kBarrier) {
    return;
  }
  Step step;
  step.kind = StepKind::kCopy;
  step.target = {BufferId::kOutput, 0, schedule->signature.count};
  step.source = {BufferId::kInput, 0, schedule->signature.count};
  schedule->steps.push_back(step);
}

void SetCounts(Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  const CallKind kind = schedule->signature.kind;
  if (kind == CallKind::kBarrier) return;
  schedule->input_count = count;
  schedule->output_count = count;
  if (kind == CallKind::kReduceScatter) {
    schedule->input_count = count * schedule->world_size;
  }
  if (kind == CallKind::kAllGather) {
    schedule->output_count = count * schedule->world_size;
  }
}

// Appends all steps; false when the collective lacks the algorithm.
bool AddSteps(bool in_place, Schedule* schedule) {
  const bool alone = schedule->world_size == 1;
  const auto add = [&](auto add_algorithm) {
    if (alone) {
      AddLocalCopy(in_place, schedule);
    } else {
      add_algorithm();
    }
    return true;
  };
  const CallKind kind = schedule->signature.kind;
  switch (schedule->signature.algorithm) {
    case Algorithm::kRing:
      if (kind == CallKind::kAllReduce) {
        return add([&] { AddRingAllReduce(in_place, schedule); });
      }
      if (kind == CallKind::kReduceScatter) {
        return add([&] { AddRingReduceScatter(in_place, schedule); });
      }
      if (kind == CallKind::kAllGather) {
        return add([&] { AddRingAllGather(in_place, schedule); });
      }
      return false;
    case Algorithm::kRecursiveDoubling:
      if (kind != CallKind::kAllReduce) return false;
      return add([&] { AddRecursiveDoublingAllReduce(in_place, schedule); });
    case Algorithm::kBinomialTree:
      if (kind != CallKind::kBroadcast) return false;
      return add([&] { AddBinomialTreeBroadcast(schedule); });
    case Algorithm::kDissemination:
      if (kind != CallKind::kBarrier) return false;
      return add([&] { AddDisseminationBarrier(schedule); });
    case Algorithm::kAuto:
      return false;
  }
  return false;
}

// One range that a step reads or writes.
struct Access {
  BufferRange range;
  bool writes = false;
};

// Reading comes before writing; an unused one is empty. A step that reads what
// it writes just writes.
std::array<Access, 2> AccessesOf(const Step& step) {
  const bool has_source =
      step.kind == StepKind::kReceiveReduce || step.kind == StepKind::kCopy;
  const bool reads_elsewhere =
      has_source && (step.source.buffer != step.target.buffer ||
                     step.source.begin != step.target.begin);
  return {Access{reads_elsewhere ? step.source : BufferRange(), false},
          Access{step.target, step.kind != StepKind::kSend}};
}

// Elements that every step touches all or none of, and who touched them last.
struct Segment {
  std::int32_t writer = -1;
  std::vector<std::int32_t> readers;  // since then
};

// The segments of one buffer: the elements between neighbouring ends of ranges.
class SegmentTable {
 public:
  void AddRange(const BufferRange& range) {
    if (range.count == 0) return;
    ends_.push_back(range.begin);
    ends_.push_back(range.end());
  }

  void Seal() {
    std::sort(ends_.begin(), ends_.end());
    ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
    segments_.resize(ends_.size());
  }

  template <typename Visit>
  void ForEach(const BufferRange& range, const Visit& visit) {
    const auto at = std::lower_bound(ends_.begin(), ends_.end(), range.begin);
    for (std::size_t i = at - ends_.begin();
         i < ends_.size() && ends_[i] < range.end(); ++i) {
      visit(&segments_[i]);
    }
  }

 private:
  std::vector<std::int64_t> ends_;
  std::vector<Segment> segments_;
};

}  // namespace

std::string Schedule::ToString() const {
  std::string text = absl::StrCat("rank ", rank, " of ", world_size, ", ",
                                  signature.ToString());
  if (scratch_count > 0) absl::StrAppend(&text, ", scratch ", scratch_count);
  absl::StrAppend(&text, "\n");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    absl::StrAppend(&text, "  ", i, ": ", StepText(steps[i]), "\n");
  }
  return text;
}

BufferRange EvenPart(BufferId buffer, std::int64_t count, int parts,
                     int index) {
  const std::int64_t length = count / parts;
  const std::int64_t longer = count % parts;
  return {buffer, index * length + std::min<std::int64_t>(index, longer),
          length + (index < longer ? 1 : 0)};
}

absl::StatusOr<Schedule> BuildSchedule(const CallSignature& signature, int rank,
                                       int world_size, bool in_place) {
  SHOAL_RETURN_IF_ERROR(Check(signature, rank, world_size));
  Schedule schedule;
  schedule.signature = signature;
  schedule.rank = rank;
  schedule.world_size = world_size;
  SetCounts(&schedule);
  if (!AddSteps(in_place, &schedule)) {
    return Refusal(signature,
                   absl::StrCat(CallKindName(signature.kind),
                                " has no schedule by the algorithm \"",
                                AlgorithmName(signature.algorithm), "\""));
  }
  FinishSchedule(&schedule);
  return schedule;
}

// A reader waits for the last writer of an element, a writer for all readers
// since the last writer, or for that writer where nobody has read. What lies
// further back is implied, element by element.
void FinishSchedule(Schedule* schedule) {
  std::array<SegmentTable, kBuffers> tables;
  const auto table = [&](const BufferRange& range) -> SegmentTable& {
    return tables[static_cast<int>(range.buffer)];
  };
  for (const Step& step : schedule->steps) {
    for (const Access& access : AccessesOf(step)) {
      table(access.range).AddRange(access.range);
    }
  }
  for (SegmentTable& each : tables) each.Seal();

  for (std::size_t i = 0; i < schedule->steps.size(); ++i) {
    const std::int32_t index = static_cast<std::int32_t>(i);
    Step& step = schedule->steps[i];
    std::vector<std::int32_t> earlier;
    const std::array<Access, 2> accesses = AccessesOf(step);
    for (const Access& access : accesses) {
      table(access.range).ForEach(access.range, [&](Segment* segment) {
        if (access.writes && !segment->readers.empty()) {
          earlier.insert(earlier.end(), segment->readers.begin(),
                         segment->readers.end());
        } else if (segment->writer >= 0) {
          earlier.push_back(segment->writer);
        }
      });
    }
    for (const Access& access : accesses) {
      table(access.range).ForEach(access.range, [&](Segment* segment) {
        if (access.writes) {
          segment->writer = index;
          segment->readers.clear();
        } else {
          segment->readers.push_back(index);
        }
      });
    }
    std::sort(earlier.begin(), earlier.end());
    earlier.erase(std::unique(earlier.begin(), earlier.end()), earlier.end());
    step.depends_on = std::move(earlier);
  }
}

}  // namespace shoal::internal
