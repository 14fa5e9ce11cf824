// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/block_shard.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/even_split.h"
#include "shoal/partition/range.h"

namespace shoal {

absl::StatusOr<BlockShard> BlockShard::Create(int64_t full_size,
                                              int64_t block_size, int rank,
                                              int world_size) {
  constexpr absl::string_view kCaller = "BlockShard::Create";
  SHOAL_RETURN_IF_ERROR(internal::CheckRank(kCaller, rank, world_size));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckNotNegative(kCaller, "full_size", full_size));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "block_size", block_size));
  if (full_size % block_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller, ": full_size (", full_size, ") not divisible by block_size (",
        block_size,
        "); a dimension that is not made of whole blocks cannot be cut "
        "between them"));
  }
  return BlockShard(full_size, block_size, rank, world_size);
}

Range BlockShard::blocks() const {
  return internal::EvenSplit(full_size_ / block_size_, rank_, world_size_);
}

Range BlockShard::range() const {
  const Range own = blocks();
  return {own.begin * block_size_, own.end * block_size_};
}

std::string BlockShard::ToString() const {
  return absl::StrCat("rank ", rank_, " of ", world_size_, ": ",
                      range().ToString(), " of ", full_size_, ", blocks ",
                      blocks().ToString(), " of ", block_size_);
}

}  // namespace shoal
