// SPDX-License-Identifier: Apache-2.0
//
// Splits a model's layers over unequal machines: consecutive blocks, one a
// rank, such that the slowest stage is as fast as possible and every stage fits
// its rank's memory.
//
// The time of a stage is the work of its layers divided by the speed of its
// rank. The first stage (rank world_size - 1) also has the embedding, the last
// one (rank 0) the final norm and the LM head; a single rank has both. A
// pipeline that is kept full delivers one micro-batch each time that its
// slowest stage takes, hence the goal.
//
// The result is exact, by dynamic programming over (stage, first layer), and
// unique: among the splits with the fastest slowest stage it is the one with
// the fastest second slowest stage, and so on; among those that agree in all
// stage times the one that gives most layers to the first stage, then to the
// second, and so on. On equal machines with equal layers and nothing extra that
// is PipelineLayerRange's split. A rank that is too slow or too small to help
// gets no layer. Times are IEEE doubles, so all machines find the same split.
//
// Pure functions: no state, safe from any thread.
#ifndef SHOAL_PARTITION_WEIGHTED_SPLIT_H_
#define SHOAL_PARTITION_WEIGHTED_SPLIT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/partition/layer_split.h"

namespace shoal {

// What a layer, or what comes before or after all layers, asks of its rank.
struct LayerCost {
  // In any unit that is the same for all, such as FLOPs a token.
  int64_t work = 0;
  // Weights, KV cache and activations together.
  int64_t memory_bytes = 0;

  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

// What a rank has to give.
struct RankCapacity {
  // Work units per unit of time: finite and > 0.
  double speed = 1.0;
  // No value: no limit.
  std::optional<int64_t> memory_bytes = std::nullopt;

  friend bool operator==(const RankCapacity&, const RankCapacity&) = default;
};

struct WeightedSplitProblem {
  std::vector<LayerCost> layers;    // In forward order, from the embedding on.
  std::vector<RankCapacity> ranks;  // By rank: ranks[0] owns the last layers.
  LayerCost first_stage_extra;      // The embedding, on rank world_size - 1.
  LayerCost last_stage_extra;       // Final norm and LM head, on rank 0.
};

// What a split asks of one rank.
struct StageLoad {
  int64_t work = 0;
  int64_t memory_bytes = 0;
  double time = 0;  // work / speed.

  friend bool operator==(const StageLoad&, const StageLoad&) = default;
};

// The best split, as defined above. Takes O(world_size * layers^2) steps of at
// most world_size comparisons each: well below a second for 64 ranks and 200
// layers. Errors:
// - kInvalidArgument: there is no rank; a work or a memory is negative; a speed
//   is not finite and > 0. The message names the layer or the rank.
// - kOutOfRange: the work or the memory of the whole model is not an int64_t.
// - kResourceExhausted: no split fits the memory limits. The message says how
//   many layers fit.
absl::StatusOr<LayerSplit> MinimizeSlowestStage(
    const WeightedSplitProblem& problem);

// What `split`, wherever it comes from, asks of each rank, by rank. Errors as
// above, and kInvalidArgument if the split is for another number of layers or
// ranks; kResourceExhausted names the first rank whose memory it exceeds.
absl::StatusOr<std::vector<StageLoad>> StageLoads(
    const WeightedSplitProblem& problem, const LayerSplit& split);

}  // namespace shoal

#endif  // SHOAL_PARTITION_WEIGHTED_SPLIT_H_
