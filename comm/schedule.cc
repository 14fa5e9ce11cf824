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
#include "shoal/comm/schedule_steps.h"

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
    case StepKind::kFold:
      text = absl::StrCat(target, " = ");
      for (std::size_t i = 0; i < step.operands.size(); ++i) {
        absl::StrAppend(&text, i == 0 ? "" : " op ",
                        RangeText(step.operands[i]));
      }
      break;
  }
  if (step.completes) absl::StrAppend(&text, ", completes");
  if (step.after >= 0) absl::StrAppend(&text, ", after ", step.after);
  return text;
}

absl::Status Refusal(const ScheduleRequest& request, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(request.signature.ToString(request.counts), ": ", why));
}

absl::Status CheckCounts(const ScheduleRequest& request) {
  const CallSignature& signature = request.signature;
  const std::size_t n = static_cast<std::size_t>(request.world_size);
  std::size_t expected = 0;
  if (signature.kind == CallKind::kAllGatherV) expected = n;
  if (signature.kind == CallKind::kAllToAllV) expected = 2 * n;
  if (signature.kind != CallKind::kAllReduce &&
      request.counts.size() != expected) {
    return Refusal(request,
                   absl::StrCat(request.counts.size(),
                                " counts of parts in place of ", expected));
  }
  std::int64_t left = std::numeric_limits<std::int64_t>::max() /
                      static_cast<std::int64_t>(DTypeSize(signature.dtype));
  for (const std::int64_t count : request.counts) {
    if (count < 0 || count > left) {
      return Refusal(request, absl::StrCat("count ", count,
                                           " is negative, or their sum "
                                           "overflows 64 bits"));
    }
    left -= count;
  }
  return absl::OkStatus();
}

absl::Status Check(const ScheduleRequest& request) {
  const CallSignature& signature = request.signature;
  const int world_size = request.world_size;
  if (world_size < 1) {
    return Refusal(request, absl::StrCat("a world of ", world_size,
                                         " ranks; it needs at least 1"));
  }
  const std::string ranks =
      absl::StrCat("the world's ranks are 0 to ", world_size - 1);
  if (request.rank < 0 || request.rank >= world_size) {
    return Refusal(request, absl::StrCat("rank ", request.rank, "; ", ranks));
  }
  if (signature.root < 0 || signature.root >= world_size) {
    return Refusal(request, absl::StrCat("root ", signature.root, "; ", ranks));
  }
  if (!IsValidDType(signature.dtype) || !IsValidReduceOp(signature.op)) {
    return Refusal(request, "unknown element type or reduction");
  }
  if (signature.count < 0) {
    return Refusal(request, absl::StrCat("negative count ", signature.count));
  }
  const std::int64_t largest =
      std::numeric_limits<std::int64_t>::max() /
      static_cast<std::int64_t>(DTypeSize(signature.dtype));
  if (signature.count > largest / world_size) {
    return Refusal(request,
                   absl::StrCat("count ", signature.count, " x ", world_size,
                                " ranks overflows 64 bits"));
  }
  return CheckCounts(request);
}

// A world of one.
void AddLocalCopy(bool in_place, Schedule* schedule) {
  const CallKind kind = schedule->signature.kind;
  if (in_place || kind == CallKind::kBroadcast || kind == CallKind::kBarrier) {
    return;
  }
  Step step;
  step.kind = StepKind::kCopy;
  step.target = {BufferId::kOutput, 0, schedule->output_count};
  step.source = {BufferId::kInput, 0, schedule->output_count};
  schedule->steps.push_back(step);
}

void SetCounts(Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  const std::int64_t all = count * schedule->world_size;
  const bool is_root = schedule->rank == schedule->signature.root;
  std::int64_t& input = schedule->input_count;
  std::int64_t& output = schedule->output_count;
  switch (schedule->signature.kind) {
    case CallKind::kAllReduce:
    case CallKind::kBroadcast:
      input = output = count;
      break;
    case CallKind::kReduceScatter:
      input = all;
      output = count;
      break;
    case CallKind::kAllGather:
      input = count;
      output = all;
      break;
    case CallKind::kReduce:
      input = count;
      output = is_root ? count : 0;
      break;
    case CallKind::kGather:
      input = count;
      output = is_root ? all : 0;
      break;
    case CallKind::kScatter:
      input = is_root ? all : 0;
      output = count;
      break;
    case CallKind::kAllToAll:
      input = output = all;
      break;
    case CallKind::kAllGatherV:
      input = schedule->counts[schedule->rank];
      output =
          PartOf(BufferId::kOutput, schedule->counts, schedule->world_size - 1)
              .end();
      break;
    case CallKind::kAllToAllV:
      input = SentPart(*schedule, schedule->world_size - 1).end();
      output = ReceivedPart(*schedule, schedule->world_size - 1).end();
      break;
    case CallKind::kBarrier:
    case CallKind::kSend:
    case CallKind::kRecv:
      break;
  }
}

// The function that appends the steps of a collective by an algorithm.
using Builder = void (*)(bool in_place, Schedule* schedule);

struct BuilderEntry {
  CallKind kind;
  Algorithm algorithm;
  Builder builder;
};

constexpr BuilderEntry kBuilders[] = {
    {CallKind::kAllReduce, Algorithm::kRing, &AddRingAllReduce},
    {CallKind::kAllReduce, Algorithm::kRecursiveDoubling,
     &AddRecursiveDoublingAllReduce},
    {CallKind::kAllReduce, Algorithm::kDirect, &AddDirectAllReduce},
    {CallKind::kAllReduce, Algorithm::kOneShot, &AddOneShotAllReduce},
    {CallKind::kAllReduce, Algorithm::kHalvingDoubling,
     &AddHalvingDoublingAllReduce},
    {CallKind::kAllReduce, Algorithm::kTree, &AddTreeAllReduce},
    {CallKind::kReduceScatter, Algorithm::kRing, &AddRingReduceScatter},
    {CallKind::kReduceScatter, Algorithm::kDirect, &AddDirectReduceScatter},
    {CallKind::kAllGather, Algorithm::kRing, &AddRingAllGather},
    {CallKind::kAllGather, Algorithm::kDirect, &AddDirectAllGather},
    {CallKind::kAllGatherV, Algorithm::kRing, &AddRingAllGather},
    {CallKind::kAllGatherV, Algorithm::kDirect, &AddDirectAllGather},
    {CallKind::kBroadcast, Algorithm::kBinomialTree, &AddBinomialTreeBroadcast},
    {CallKind::kBroadcast, Algorithm::kChain, &AddChainBroadcast},
    {CallKind::kBroadcast, Algorithm::kLinear, &AddLinearBroadcast},
    {CallKind::kReduce, Algorithm::kTree, &AddTreeReduce},
    {CallKind::kReduce, Algorithm::kChain, &AddChainReduce},
    {CallKind::kReduce, Algorithm::kLinear, &AddLinearReduce},
    {CallKind::kGather, Algorithm::kLinear, &AddLinearGather},
    {CallKind::kScatter, Algorithm::kLinear, &AddLinearScatter},
    {CallKind::kAllToAll, Algorithm::kPairwise, &AddPairwiseAllToAll},
    {CallKind::kAllToAllV, Algorithm::kPairwise, &AddPairwiseAllToAll},
    {CallKind::kBarrier, Algorithm::kDissemination, &AddDisseminationBarrier},
};

// Appends all steps; false when the collective lacks the algorithm.
bool AddSteps(bool in_place, Schedule* schedule) {
  for (const BuilderEntry& entry : kBuilders) {
    if (entry.kind != schedule->signature.kind ||
        entry.algorithm != schedule->signature.algorithm) {
      continue;
    }
    if (schedule->world_size == 1) {
      AddLocalCopy(in_place, schedule);
    } else {
      entry.builder(in_place, schedule);
    }
    return true;
  }
  return false;
}

// One range that a step reads or writes.
struct Access {
  BufferRange range;
  bool writes = false;
};

bool SamePlace(const BufferRange& a, const BufferRange& b) {
  return a.buffer == b.buffer && a.begin == b.begin;
}

// Reading comes before writing. A step that reads what it writes just writes.
std::vector<Access> AccessesOf(const Step& step) {
  std::vector<Access> accesses;
  const auto read = [&](const BufferRange& range) {
    if (!SamePlace(range, step.target)) accesses.push_back({range, false});
  };
  if (step.kind == StepKind::kReceiveReduce || step.kind == StepKind::kCopy) {
    read(step.source);
  }
  for (const BufferRange& operand : step.operands) read(operand);
  accesses.push_back({step.target, step.kind != StepKind::kSend});
  return accesses;
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
  std::string text =
      absl::StrCat("rank ", rank, " of ", world_size, ", ", CallText());
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

absl::StatusOr<Schedule> BuildSchedule(const ScheduleRequest& request) {
  SHOAL_RETURN_IF_ERROR(Check(request));
  const CallSignature& signature = request.signature;
  Schedule schedule;
  schedule.signature = signature;
  schedule.counts = request.counts;
  schedule.rank = request.rank;
  schedule.world_size = request.world_size;
  SetCounts(&schedule);
  if (!AddSteps(request.in_place, &schedule)) {
    return Refusal(request,
                   absl::StrCat(CallKindName(signature.kind),
                                " has no schedule by the algorithm \"",
                                AlgorithmName(signature.algorithm), "\""));
  }
  FinishSchedule(&schedule);
  return schedule;
}

absl::StatusOr<Schedule> BuildSchedule(const CallSignature& signature, int rank,
                                       int world_size, bool in_place) {
  ScheduleRequest request;
  request.signature = signature;
  request.rank = rank;
  request.world_size = world_size;
  request.in_place = in_place;
  return BuildSchedule(request);
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
    const std::vector<Access> accesses = AccessesOf(step);
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
