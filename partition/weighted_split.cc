// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/weighted_split.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/checked_math.h"
#include "shoal/partition/layer_split.h"
#include "shoal/partition/range.h"

namespace shoal {
namespace {

// A checked problem, seen in forward order: stage 0 embeds.
class ForwardStages {
 public:
  static absl::StatusOr<ForwardStages> Create(
      const WeightedSplitProblem& problem, absl::string_view caller);

  int num_stages() const { return static_cast<int>(problem_.ranks.size()); }
  int num_layers() const { return static_cast<int>(problem_.layers.size()); }

  // The load of `stage` if it runs `layers`. Cannot overflow: it is at most
  // that of the whole model, which Create has summed.
  StageLoad Load(int stage, const Range& layers) const;

  bool Fits(int stage, const StageLoad& load) const {
    return load.memory_bytes <= MemoryLimit(stage);
  }

  int RankOf(int stage) const { return num_stages() - 1 - stage; }

  // How many layers, from the first on, fit when each stage takes as many as
  // its memory holds. That is the most that any split can place, because a
  // stage that takes fewer only leaves more to the next.
  int LayersThatFit() const;

  // The error of a problem that has no solution.
  absl::Status DoesNotFit(absl::string_view caller) const;

 private:
  explicit ForwardStages(const WeightedSplitProblem& problem)
      : problem_(problem) {}

  absl::Status SumUp(absl::string_view caller);

  const RankCapacity& Capacity(int stage) const {
    return problem_.ranks[RankOf(stage)];
  }
  int64_t MemoryLimit(int stage) const {
    return Capacity(stage).memory_bytes.value_or(
        std::numeric_limits<int64_t>::max());
  }

  const WeightedSplitProblem& problem_;
  // Sums over the first i layers, for i in 0..num_layers().
  std::vector<int64_t> work_before_ = {0};
  std::vector<int64_t> memory_before_ = {0};
};

absl::Status CheckCost(absl::string_view caller, absl::string_view what,
                       const LayerCost& cost) {
  SHOAL_RETURN_IF_ERROR(internal::CheckNotNegative(
      caller, absl::StrCat("work of ", what), cost.work));
  return internal::CheckNotNegative(
      caller, absl::StrCat("memory_bytes of ", what), cost.memory_bytes);
}

absl::Status CheckCapacity(absl::string_view caller, int rank,
                           const RankCapacity& capacity) {
  if (!std::isfinite(capacity.speed) || capacity.speed <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(caller, ": speed of rank ", rank,
                     " must be finite and > 0, got ", capacity.speed));
  }
  return internal::CheckNotNegative(caller,
                                    absl::StrCat("memory_bytes of rank ", rank),
                                    capacity.memory_bytes.value_or(0));
}

absl::StatusOr<ForwardStages> ForwardStages::Create(
    const WeightedSplitProblem& problem, absl::string_view caller) {
  constexpr size_t kMaxInt = std::numeric_limits<int>::max();
  if (problem.ranks.size() > kMaxInt || problem.layers.size() > kMaxInt) {
    return absl::InvalidArgumentError(
        absl::StrCat(caller, ": ", problem.ranks.size(), " ranks and ",
                     problem.layers.size(), " layers are not ints"));
  }
  SHOAL_RETURN_IF_ERROR(
      internal::CheckWorldSize(caller, static_cast<int>(problem.ranks.size())));
  for (size_t rank = 0; rank < problem.ranks.size(); ++rank) {
    SHOAL_RETURN_IF_ERROR(
        CheckCapacity(caller, static_cast<int>(rank), problem.ranks[rank]));
  }
  for (size_t layer = 0; layer < problem.layers.size(); ++layer) {
    SHOAL_RETURN_IF_ERROR(CheckCost(caller, absl::StrCat("layer ", layer),
                                    problem.layers[layer]));
  }
  SHOAL_RETURN_IF_ERROR(
      CheckCost(caller, "first_stage_extra", problem.first_stage_extra));
  SHOAL_RETURN_IF_ERROR(
      CheckCost(caller, "last_stage_extra", problem.last_stage_extra));
  ForwardStages stages(problem);
  SHOAL_RETURN_IF_ERROR(stages.SumUp(caller));
  return stages;
}

absl::Status ForwardStages::SumUp(absl::string_view caller) {
  const auto too_large = [caller](absl::string_view what) {
    return absl::OutOfRangeError(absl::StrCat(
        caller, ": the ", what,
        " of the whole model does not fit 64 bits; use a larger unit"));
  };
  for (const LayerCost& layer : problem_.layers) {
    const std::optional<int64_t> work =
        internal::CheckedAdd(work_before_.back(), layer.work);
    if (!work.has_value()) return too_large("work");
    work_before_.push_back(*work);
    const std::optional<int64_t> memory =
        internal::CheckedAdd(memory_before_.back(), layer.memory_bytes);
    if (!memory.has_value()) return too_large("memory");
    memory_before_.push_back(*memory);
  }
  LayerCost total = {work_before_.back(), memory_before_.back()};
  for (const LayerCost& extra :
       {problem_.first_stage_extra, problem_.last_stage_extra}) {
    const std::optional<int64_t> work =
        internal::CheckedAdd(total.work, extra.work);
    if (!work.has_value()) return too_large("work");
    const std::optional<int64_t> memory =
        internal::CheckedAdd(total.memory_bytes, extra.memory_bytes);
    if (!memory.has_value()) return too_large("memory");
    total = {*work, *memory};
  }
  return absl::OkStatus();
}

StageLoad ForwardStages::Load(int stage, const Range& layers) const {
  StageLoad load;
  load.work = work_before_[layers.end] - work_before_[layers.begin];
  load.memory_bytes = memory_before_[layers.end] - memory_before_[layers.begin];
  if (stage == 0) {
    load.work += problem_.first_stage_extra.work;
    load.memory_bytes += problem_.first_stage_extra.memory_bytes;
  }
  if (stage == num_stages() - 1) {
    load.work += problem_.last_stage_extra.work;
    load.memory_bytes += problem_.last_stage_extra.memory_bytes;
  }
  load.time = static_cast<double>(load.work) / Capacity(stage).speed;
  return load;
}

int ForwardStages::LayersThatFit() const {
  int begin = 0;
  for (int stage = 0; stage < num_stages(); ++stage) {
    int end = begin;
    while (end < num_layers() && Fits(stage, Load(stage, {begin, end + 1}))) {
      ++end;
    }
    begin = end;
  }
  return begin;
}

absl::Status ForwardStages::DoesNotFit(absl::string_view caller) const {
  for (const int stage : {0, num_stages() - 1}) {
    const StageLoad extra = Load(stage, {0, 0});
    if (Fits(stage, extra)) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        caller, ": rank ", RankOf(stage), ", the ",
        stage == 0 ? "first" : "last", " stage, needs ", extra.memory_bytes,
        " bytes before it has any layer, but its limit is ", MemoryLimit(stage),
        "; give that place to a larger machine"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      caller, ": the memory limits of the ", num_stages(),
      " ranks hold only the first ", LayersThatFit(), " of ", num_layers(),
      " layers; add a rank, raise a limit or use a smaller weight type"));
}

// The dynamic program. best[layer] is the best way to run layers [layer, L) on
// the stages from some stage on, as their times from the slowest to the
// fastest; no value where it does not fit. Lists of one length compare as the
// header defines "best", and that order survives adding the same stage to two
// of them, which is what makes the best whole of best parts.
using Times = std::vector<double>;

Times WithStage(const Times& times, double time) {
  Times result = times;
  result.insert(std::upper_bound(result.begin(), result.end(), time,
                                 std::greater<double>()),
                time);
  return result;
}

class SplitSearch {
 public:
  explicit SplitSearch(const ForwardStages& stages) : stages_(stages) {}

  // The number of layers of each stage; no value if no split fits.
  std::optional<std::vector<int64_t>> Run() {
    const int num_layers = stages_.num_layers();
    best_.assign(num_layers + 1, std::nullopt);
    best_[num_layers] = Times();
    end_.assign(stages_.num_stages(), std::vector<int>(num_layers + 1, 0));
    for (int stage = stages_.num_stages() - 1; stage >= 0; --stage) {
      AddStageInFront(stage);
    }
    if (!best_[0].has_value()) return std::nullopt;
    std::vector<int64_t> counts;
    int begin = 0;
    for (int stage = 0; stage < stages_.num_stages(); ++stage) {
      const int end = end_[stage][begin];
      counts.push_back(end - begin);
      begin = end;
    }
    return counts;
  }

 private:
  // Turns the best ways for the stages after `stage` into those from it on.
  void AddStageInFront(int stage) {
    std::vector<std::optional<Times>> best(best_.size());
    for (int begin = 0; begin <= stages_.num_layers(); ++begin) {
      // Longest block first, so that it wins among equals.
      for (int end = stages_.num_layers(); end >= begin; --end) {
        if (!best_[end].has_value()) continue;
        const StageLoad load = stages_.Load(stage, {begin, end});
        if (!stages_.Fits(stage, load)) continue;
        if (best[begin].has_value() && load.time > best[begin]->front()) {
          continue;  // Cannot win; spares the copy below.
        }
        Times times = WithStage(*best_[end], load.time);
        if (!best[begin].has_value() || times < *best[begin]) {
          best[begin] = std::move(times);
          end_[stage][begin] = end;
        }
      }
    }
    best_ = std::move(best);
  }

  const ForwardStages& stages_;
  std::vector<std::optional<Times>> best_;
  // end_[stage][begin]: where the block of `stage` that begins at `begin` ends.
  std::vector<std::vector<int>> end_;
};

}  // namespace

absl::StatusOr<LayerSplit> MinimizeSlowestStage(
    const WeightedSplitProblem& problem) {
  constexpr absl::string_view kCaller = "MinimizeSlowestStage";
  SHOAL_ASSIGN_OR_RETURN(const ForwardStages stages,
                         ForwardStages::Create(problem, kCaller));
  std::optional<std::vector<int64_t>> counts = SplitSearch(stages).Run();
  if (!counts.has_value()) return stages.DoesNotFit(kCaller);
  std::reverse(counts->begin(), counts->end());  // From stages to ranks.
  return LayerSplit::FromCounts(stages.num_layers(), *counts);
}

absl::StatusOr<std::vector<StageLoad>> StageLoads(
    const WeightedSplitProblem& problem, const LayerSplit& split) {
  constexpr absl::string_view kCaller = "StageLoads";
  SHOAL_ASSIGN_OR_RETURN(const ForwardStages stages,
                         ForwardStages::Create(problem, kCaller));
  if (split.num_layers() != stages.num_layers() ||
      split.world_size() != stages.num_stages()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller, ": the split is of ", split.num_layers(), " layers over ",
        split.world_size(), " ranks, the problem of ", stages.num_layers(),
        " over ", stages.num_stages()));
  }
  std::vector<StageLoad> loads;
  for (int rank = 0; rank < split.world_size(); ++rank) {
    SHOAL_ASSIGN_OR_RETURN(const Range layers, split.LayerRange(rank));
    const int stage = split.world_size() - 1 - rank;
    loads.push_back(stages.Load(stage, layers));
    if (!stages.Fits(stage, loads.back())) {
      return absl::ResourceExhaustedError(absl::StrCat(
          kCaller, ": rank ", rank, " needs ", loads.back().memory_bytes,
          " bytes for layers ", layers.ToString(), ", but its limit is ",
          *problem.ranks[rank].memory_bytes,
          "; give it fewer layers or raise the limit"));
    }
  }
  return loads;
}

}  // namespace shoal
