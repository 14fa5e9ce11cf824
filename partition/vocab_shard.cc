// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/vocab_shard.h"

#include <algorithm>
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
namespace {

// The least multiple of pad_to * world_size that is >= vocab_size, or no value
// where that is not an int64_t.
std::optional<int64_t> PaddedSize(int64_t vocab_size, int64_t pad_to,
                                  int world_size) {
  const std::optional<int64_t> unit =
      internal::CheckedMultiply(pad_to, world_size);
  if (!unit.has_value()) return std::nullopt;
  const int64_t units = vocab_size / *unit + (vocab_size % *unit != 0 ? 1 : 0);
  return internal::CheckedMultiply(units, *unit);
}

}  // namespace

absl::StatusOr<VocabShard> VocabShard::Create(int64_t vocab_size,
                                              int64_t pad_to, int rank,
                                              int world_size) {
  constexpr absl::string_view kCaller = "VocabShard::Create";
  SHOAL_RETURN_IF_ERROR(internal::CheckRank(kCaller, rank, world_size));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "vocab_size", vocab_size));
  SHOAL_RETURN_IF_ERROR(internal::CheckPositive(kCaller, "pad_to", pad_to));
  const std::optional<int64_t> padded_size =
      PaddedSize(vocab_size, pad_to, world_size);
  if (!padded_size.has_value()) {
    return absl::OutOfRangeError(
        absl::StrCat(kCaller, ": vocab_size ", vocab_size,
                     " padded to a multiple of pad_to ", pad_to,
                     " times world ", world_size, " does not fit 64 bits"));
  }
  return VocabShard(vocab_size, pad_to, rank, world_size,
                    *padded_size / world_size);
}

Range VocabShard::padded_range() const {
  return {rank_ * rows_per_rank_, (rank_ + 1) * rows_per_rank_};
}

Range VocabShard::token_range() const {
  const Range rows = padded_range();
  return {std::min(rows.begin, vocab_size_), std::min(rows.end, vocab_size_)};
}

int64_t VocabShard::padding() const {
  return rows_per_rank_ - token_range().size();
}

absl::StatusOr<int> VocabShard::OwnerOf(int64_t token) const {
  if (token < 0 || token >= vocab_size_) {
    return absl::InvalidArgumentError(
        absl::StrCat("VocabShard::OwnerOf: token ", token,
                     " is not in the vocabulary of ", vocab_size_, " tokens"));
  }
  return static_cast<int>(token / rows_per_rank_);
}

std::string VocabShard::ToString() const {
  return absl::StrCat("rank ", rank_, " of ", world_size_, ": tokens ",
                      token_range().ToString(), " of ", vocab_size_, ", ",
                      padding(), " rows of padding");
}

}  // namespace shoal
