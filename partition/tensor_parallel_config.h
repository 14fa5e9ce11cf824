// SPDX-License-Identifier: Apache-2.0
//
// TensorParallelConfig: the size of a tensor-parallel group, and the shards
// that follow from it.
//
//   absl::StatusOr<TensorParallelConfig> config =
//       TensorParallelConfig::Create(4);
//   // The columns of a [4096, 4096] weight that rank 1 owns: [1024, 2048).
//   absl::StatusOr<Range> range =
//       config->ShardRange(1, 4096, ShardDim::kColumn);
//
// An immutable value: every object is valid, and safe to read from any thread.
#ifndef SHOAL_PARTITION_TENSOR_PARALLEL_CONFIG_H_
#define SHOAL_PARTITION_TENSOR_PARALLEL_CONFIG_H_

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tensor_shard.h"

namespace shoal {

class TensorParallelConfig {
 public:
  // A group of `world_size` ranks. kInvalidArgument, "world_size must be > 0",
  // if there are none.
  static absl::StatusOr<TensorParallelConfig> Create(int world_size);

  int world_size() const { return world_size_; }

  // The indices that `rank` owns along a dimension of `full_size` indices: the
  // range of the TensorShard of that size. The ranges of all ranks tile
  // [0, full_size) in rank order; the last rank takes the remainder. Columns
  // and rows are cut alike; `dim` says what the caller cuts and is checked
  // only. kInvalidArgument as in TensorShard::Create.
  absl::StatusOr<Range> ShardRange(int rank, int64_t full_size,
                                   ShardDim dim) const;

  // The shard of `rank` of a weight of `original_shape` [rows, cols].
  // kInvalidArgument as in TensorShard::Create.
  absl::StatusOr<TensorShard> MakeShard(
      int rank, ShardDim dim, std::array<int64_t, 2> original_shape) const;

  // "tensor-parallel size 4".
  std::string ToString() const;

  friend bool operator==(const TensorParallelConfig&,
                         const TensorParallelConfig&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const TensorParallelConfig& config) {
    return H::combine(std::move(h), config.world_size_);
  }
  friend std::ostream& operator<<(std::ostream& os,
                                  const TensorParallelConfig& config) {
    return os << config.ToString();
  }

 private:
  explicit TensorParallelConfig(int world_size) : world_size_(world_size) {}

  int world_size_;
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_TENSOR_PARALLEL_CONFIG_H_
