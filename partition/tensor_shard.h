// SPDX-License-Identifier: Apache-2.0
//
// TensorShard: which part of a weight matrix one rank of a tensor-parallel
// group owns.
//
// A weight is logically [rows, cols] = [in_features, out_features], applied as
// y = x W. It is cut along one dimension (Megatron-LM, Shoeybi et al. 2019,
// section 3):
//
//   column-parallel  cols are cut; each rank computes a slice of y
//   row-parallel     rows are cut; each rank computes a summand of y
//
// Of a dimension of size `full`, rank r of N owns
//
//   [r * per_rank, (r + 1) * per_rank)  with  per_rank = full / N, rounded
//   down,
//
// and the last rank everything from its start to the end: it takes the
// remainder. (Not r * full / N: at full = 11, N = 3 rank 1 owns [3, 6).) With
// more ranks than indices the last rank owns them all and the others nothing.
// Shards that must not cut a quantised block, a head or an embedding table have
// types of their own: BlockShard, AttentionShard, VocabShard.
//
// An immutable value: every object is valid, and safe to read from any thread.
#ifndef SHOAL_PARTITION_TENSOR_SHARD_H_
#define SHOAL_PARTITION_TENSOR_SHARD_H_

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/partition/range.h"

namespace shoal {

// The dimension of a weight [rows, cols] that is cut.
enum class ShardDim {
  kColumn,  // Output features, dimension 1.
  kRow,     // Input features, dimension 0.
};

// Whether `dim` is one of the enumerators, and not a number cast to the type.
bool IsValid(ShardDim dim);
// "column" or "row"; "unknown" for a value that is not valid.
absl::string_view ShardDimName(ShardDim dim);
std::ostream& operator<<(std::ostream& os, ShardDim dim);

class TensorShard {
 public:
  // The shard of `rank` of a weight of `original_shape` [rows, cols].
  // kInvalidArgument if world_size <= 0, rank is outside [0, world_size), a
  // size is negative, or dim is not an enumerator.
  static absl::StatusOr<TensorShard> Create(
      int rank, int world_size, ShardDim dim,
      std::array<int64_t, 2> original_shape);

  // The rank that owns this shard, and the number of ranks.
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  // The dimension that is cut, and the shape [rows, cols] before the cut.
  ShardDim dim() const { return dim_; }
  const std::array<int64_t, 2>& original_shape() const {
    return original_shape_;
  }

  // First index, index past the last one, and number of indices of this shard
  // along dim().
  int64_t start() const { return range().begin; }
  int64_t end() const { return range().end; }
  int64_t shard_size() const { return range().size(); }
  Range range() const;

  // Shape [rows, cols] of the shard itself.
  std::array<int64_t, 2> shard_shape() const;

  // "rank 1 of 2: columns [2048, 4096) of [4096, 4096]".
  std::string ToString() const;

  friend bool operator==(const TensorShard&, const TensorShard&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const TensorShard& shard) {
    return H::combine(std::move(h), shard.rank_, shard.world_size_, shard.dim_,
                      shard.original_shape_);
  }
  friend std::ostream& operator<<(std::ostream& os, const TensorShard& shard) {
    return os << shard.ToString();
  }

 private:
  TensorShard(int rank, int world_size, ShardDim dim,
              std::array<int64_t, 2> original_shape)
      : rank_(rank),
        world_size_(world_size),
        dim_(dim),
        original_shape_(original_shape) {}

  int rank_;
  int world_size_;
  ShardDim dim_;
  std::array<int64_t, 2> original_shape_;
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_TENSOR_SHARD_H_
