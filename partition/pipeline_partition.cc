// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/pipeline_partition.h"

#include <cstdint>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/even_split.h"
#include "shoal/partition/range.h"

namespace shoal {

absl::string_view BlockRoleName(BlockRole role) {
  switch (role) {
    case BlockRole::kSingle:
      return "single";
    case BlockRole::kFirst:
      return "first";
    case BlockRole::kMiddle:
      return "middle";
    case BlockRole::kLast:
      return "last";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& os, BlockRole role) {
  return os << BlockRoleName(role);
}

absl::StatusOr<BlockRole> GetBlockRole(int rank, int world_size) {
  SHOAL_RETURN_IF_ERROR(internal::CheckRank("GetBlockRole", rank, world_size));
  if (world_size == 1) return BlockRole::kSingle;
  if (rank == world_size - 1) return BlockRole::kFirst;
  if (rank == 0) return BlockRole::kLast;
  return BlockRole::kMiddle;
}

absl::StatusOr<int> PipelineStageOfRank(int rank, int world_size) {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckRank("PipelineStageOfRank", rank, world_size));
  return world_size - 1 - rank;
}

absl::StatusOr<Range> PipelineLayerRange(int64_t num_layers, int rank,
                                         int world_size) {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckRank("PipelineLayerRange", rank, world_size));
  SHOAL_RETURN_IF_ERROR(internal::CheckNotNegative("PipelineLayerRange",
                                                   "num_layers", num_layers));
  return internal::EvenSplit(num_layers, world_size - 1 - rank, world_size);
}

}  // namespace shoal
