// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/tensor_shard.h"

#include <array>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/range.h"

namespace shoal {
namespace {

// The index of `dim` in a shape [rows, cols].
int DimIndex(ShardDim dim) { return dim == ShardDim::kColumn ? 1 : 0; }

}  // namespace

bool IsValid(ShardDim dim) {
  return dim == ShardDim::kColumn || dim == ShardDim::kRow;
}

absl::string_view ShardDimName(ShardDim dim) {
  switch (dim) {
    case ShardDim::kColumn:
      return "column";
    case ShardDim::kRow:
      return "row";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& os, ShardDim dim) {
  return os << ShardDimName(dim);
}

absl::StatusOr<TensorShard> TensorShard::Create(
    int rank, int world_size, ShardDim dim,
    std::array<int64_t, 2> original_shape) {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckRank("TensorShard::Create", rank, world_size));
  SHOAL_RETURN_IF_ERROR(internal::CheckNotNegative("TensorShard::Create",
                                                   "rows", original_shape[0]));
  SHOAL_RETURN_IF_ERROR(internal::CheckNotNegative("TensorShard::Create",
                                                   "cols", original_shape[1]));
  if (!IsValid(dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("TensorShard::Create: dim must be kColumn or kRow, got ",
                     static_cast<int>(dim)));
  }
  return TensorShard(rank, world_size, dim, original_shape);
}

Range TensorShard::range() const {
  const int64_t full = original_shape_[DimIndex(dim_)];
  const int64_t per_rank = full / world_size_;
  const int64_t start = rank_ * per_rank;
  // The last rank takes the remainder.
  return {start, rank_ == world_size_ - 1 ? full : start + per_rank};
}

std::array<int64_t, 2> TensorShard::shard_shape() const {
  std::array<int64_t, 2> shape = original_shape_;
  shape[DimIndex(dim_)] = shard_size();
  return shape;
}

std::string TensorShard::ToString() const {
  return absl::StrCat("rank ", rank_, " of ", world_size_, ": ",
                      ShardDimName(dim_), "s ", range().ToString(), " of [",
                      original_shape_[0], ", ", original_shape_[1], "]");
}

}  // namespace shoal
