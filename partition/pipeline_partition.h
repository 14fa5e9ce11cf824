// SPDX-License-Identifier: Apache-2.0
//
// Pipeline parallelism: which contiguous block of layers each rank runs.
//
// The order is reversed. Rank world_size - 1 owns the first layers and embeds
// the tokens; rank 0 owns the last layers, runs the final norm and the LM head
// and samples. Activations therefore flow
//
//   rank world_size - 1  ->  ...  ->  rank 1  ->  rank 0
//
// which is the assignment of mlx-lm's PipelineMixin
// (mlx_lm/models/pipeline.py): the rank that users talk to is the one that has
// the logits. A block's place in the forward direction, counted from the
// embedding, is its *stage*:
//
//   stage = world_size - 1 - rank
//
// Everything else in Shoal that speaks of ranks and stages (RankGrid,
// LayerSplit, PipelineSchedule) means these two numbers.
//
// Pure functions: no state, safe from any thread. Errors are kInvalidArgument
// and name the values: world_size <= 0, a rank outside [0, world_size), a
// negative number of layers.
#ifndef SHOAL_PARTITION_PIPELINE_PARTITION_H_
#define SHOAL_PARTITION_PIPELINE_PARTITION_H_

#include <cstdint>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/partition/range.h"

namespace shoal {

// What a rank does in the pipeline, besides running its layers.
enum class BlockRole {
  // The only rank: embeds, runs every layer, produces logits.
  kSingle,
  // Rank world_size - 1: owns the first layers, embeds the tokens and sends
  // activations on.
  kFirst,
  // Receives activations, runs its layers, sends activations on.
  kMiddle,
  // Rank 0: owns the last layers, runs the final norm and the LM head, and
  // produces the logits to sample from.
  kLast,
};

// "single", "first", "middle" or "last"; "unknown" for a value that is none of
// the enumerators.
absl::string_view BlockRoleName(BlockRole role);
std::ostream& operator<<(std::ostream& os, BlockRole role);

// The role of `rank` in a pipeline of `world_size` ranks.
absl::StatusOr<BlockRole> GetBlockRole(int rank, int world_size);

// The stage of `rank`, world_size - 1 - rank: 0 embeds, world_size - 1 produces
// logits.
absl::StatusOr<int> PipelineStageOfRank(int rank, int world_size);

// The layers [begin, end) that `rank` runs out of `num_layers`, as evenly as
// possible: every stage gets num_layers / world_size layers, and the first
// num_layers % world_size stages one more. Each layer has exactly one owner.
// With more ranks than layers the lowest ranks (the last stages) get empty
// ranges.
absl::StatusOr<Range> PipelineLayerRange(int64_t num_layers, int rank,
                                         int world_size);

}  // namespace shoal

#endif  // SHOAL_PARTITION_PIPELINE_PARTITION_H_
