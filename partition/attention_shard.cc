// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/attention_shard.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/checked_math.h"
#include "shoal/partition/range.h"

namespace shoal {

absl::StatusOr<AttentionShard> AttentionShard::Create(int64_t num_heads,
                                                      int64_t num_kv_heads,
                                                      int rank,
                                                      int world_size) {
  constexpr absl::string_view kCaller = "AttentionShard::Create";
  SHOAL_RETURN_IF_ERROR(internal::CheckRank(kCaller, rank, world_size));
  SHOAL_RETURN_IF_ERROR(internal::CheckPositive(kCaller, "heads", num_heads));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "KV heads", num_kv_heads));
  if (num_heads % num_kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller, ": heads (", num_heads, ") not divisible by KV heads (",
        num_kv_heads, "); each KV head must serve as many query heads"));
  }
  if (num_heads % world_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller, ": heads (", num_heads,
        ") not divisible by tensor-parallel size (", world_size,
        "); heads are never cut, so use a size that divides ", num_heads));
  }
  if (num_kv_heads >= world_size && num_kv_heads % world_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller, ": KV heads (", num_kv_heads,
        ") not divisible by tensor-parallel size (", world_size,
        "); heads are never cut, so use a size that divides ", num_kv_heads));
  }
  if (num_kv_heads < world_size && world_size % num_kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller, ": tensor-parallel size (", world_size,
        ") not divisible by KV heads (", num_kv_heads,
        "); each KV head must be replicated on as many ranks, so use a "
        "multiple of ",
        num_kv_heads, " or a size that divides it"));
  }
  return AttentionShard(num_heads, num_kv_heads, rank, world_size);
}

Range AttentionShard::query_heads() const {
  const int64_t per_rank = num_heads_ / world_size_;
  return {rank_ * per_rank, (rank_ + 1) * per_rank};
}

Range AttentionShard::kv_heads() const {
  if (num_kv_heads_ >= world_size_) {
    const int64_t per_rank = num_kv_heads_ / world_size_;
    return {rank_ * per_rank, (rank_ + 1) * per_rank};
  }
  const int64_t head = rank_ / kv_replicas();
  return {head, head + 1};
}

int64_t AttentionShard::kv_replicas() const {
  return num_kv_heads_ >= world_size_ ? 1 : world_size_ / num_kv_heads_;
}

absl::StatusOr<Range> AttentionShard::HeadColumns(const Range& heads,
                                                  int64_t head_dim) {
  constexpr absl::string_view kCaller = "AttentionShard::HeadColumns";
  SHOAL_RETURN_IF_ERROR(heads.Validate());
  SHOAL_RETURN_IF_ERROR(internal::CheckPositive(kCaller, "head_dim", head_dim));
  const std::optional<int64_t> end =
      internal::CheckedMultiply(heads.end, head_dim);
  if (!end.has_value()) {
    return absl::OutOfRangeError(
        absl::StrCat(kCaller, ": heads ", heads.ToString(), " of ", head_dim,
                     " columns each do not fit 64 bits"));
  }
  return Range{heads.begin * head_dim, *end};
}

std::string AttentionShard::ToString() const {
  const std::string replicas =
      kv_replicas() == 1 ? ""
                         : absl::StrCat(", each on ", kv_replicas(), " ranks");
  return absl::StrCat("rank ", rank_, " of ", world_size_, ": query heads ",
                      query_heads().ToString(), " of ", num_heads_,
                      ", KV heads ", kv_heads().ToString(), " of ",
                      num_kv_heads_, replicas);
}

}  // namespace shoal
