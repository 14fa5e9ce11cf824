// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/tensor_parallel_config.h"

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tensor_shard.h"

namespace shoal {

absl::StatusOr<TensorParallelConfig> TensorParallelConfig::Create(
    int world_size) {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckWorldSize("TensorParallelConfig::Create", world_size));
  return TensorParallelConfig(world_size);
}

absl::StatusOr<Range> TensorParallelConfig::ShardRange(int rank,
                                                       int64_t full_size,
                                                       ShardDim dim) const {
  SHOAL_RETURN_IF_ERROR(internal::CheckNotNegative(
      "TensorParallelConfig::ShardRange", "full_size", full_size));
  // In a square weight either dimension has full_size indices.
  SHOAL_ASSIGN_OR_RETURN(const TensorShard shard,
                         MakeShard(rank, dim, {full_size, full_size}));
  return shard.range();
}

absl::StatusOr<TensorShard> TensorParallelConfig::MakeShard(
    int rank, ShardDim dim, std::array<int64_t, 2> original_shape) const {
  return TensorShard::Create(rank, world_size_, dim, original_shape);
}

std::string TensorParallelConfig::ToString() const {
  return absl::StrCat("tensor-parallel size ", world_size_);
}

}  // namespace shoal
