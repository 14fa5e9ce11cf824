// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/layer_split.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/checked_math.h"
#include "shoal/partition/even_split.h"
#include "shoal/partition/range.h"

namespace shoal {

absl::StatusOr<LayerSplit> LayerSplit::Even(int64_t num_layers,
                                            int world_size) {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckWorldSize("LayerSplit::Even", world_size));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckNotNegative("LayerSplit::Even", "num_layers", num_layers));
  std::vector<int64_t> counts;
  counts.reserve(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    const int stage = world_size - 1 - rank;
    counts.push_back(internal::EvenSplit(num_layers, stage, world_size).size());
  }
  return LayerSplit(num_layers, std::move(counts));
}

absl::StatusOr<LayerSplit> LayerSplit::FromCounts(
    int64_t num_layers, absl::Span<const int64_t> counts) {
  constexpr absl::string_view kCaller = "LayerSplit::FromCounts";
  SHOAL_RETURN_IF_ERROR(
      internal::CheckNotNegative(kCaller, "num_layers", num_layers));
  if (counts.empty() || counts.size() > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCaller, ": world_size must be > 0 and an int, got ",
                     counts.size(), " layer counts"));
  }
  std::optional<int64_t> sum = 0;
  for (const int64_t count : counts) {
    if (count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(kCaller, ": a layer count must be >= 0, got ", count,
                       " in ", absl::StrJoin(counts, ",")));
    }
    if (sum.has_value()) sum = internal::CheckedAdd(*sum, count);
  }
  if (sum != num_layers) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller, ": layer counts ", absl::StrJoin(counts, ","), " sum to ",
        sum.has_value() ? absl::StrCat(*sum) : "more than 64 bits hold",
        ", but the model has ", num_layers, " layers"));
  }
  return LayerSplit(num_layers,
                    std::vector<int64_t>(counts.begin(), counts.end()));
}

absl::StatusOr<LayerSplit> LayerSplit::Parse(int64_t num_layers, int world_size,
                                             absl::string_view text) {
  constexpr absl::string_view kCaller = "LayerSplit::Parse";
  SHOAL_RETURN_IF_ERROR(internal::CheckWorldSize(kCaller, world_size));
  std::vector<int64_t> counts;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    int64_t count;
    if (!absl::SimpleAtoi(item, &count)) {
      return absl::InvalidArgumentError(absl::StrCat(
          kCaller, ": \"", absl::StripAsciiWhitespace(item), "\" in \"", text,
          "\" is not a number of layers; write one number a rank, rank 0 "
          "first, as in 8,8,10,6"));
    }
    counts.push_back(count);
  }
  if (counts.size() != static_cast<size_t>(world_size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller, ": \"", text, "\" lists ", counts.size(),
        " layer counts for world ", world_size, "; write one a rank"));
  }
  return FromCounts(num_layers, counts);
}

absl::StatusOr<Range> LayerSplit::LayerRange(int rank) const {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckRank("LayerSplit::LayerRange", rank, world_size()));
  // Higher ranks own the layers before this block, lower ranks those after it.
  int64_t end = num_layers_;
  for (int lower = 0; lower < rank; ++lower) end -= counts_[lower];
  return Range{end - counts_[rank], end};
}

std::string LayerSplit::ToString() const {
  std::string text = absl::StrCat(num_layers_, " layers:");
  int64_t end = num_layers_;
  for (int rank = 0; rank < world_size(); ++rank) {
    const Range layers = {end - counts_[rank], end};
    absl::StrAppend(&text, rank == 0 ? "" : ",", " rank ", rank, " ",
                    layers.ToString());
    end = layers.begin;
  }
  return text;
}

}  // namespace shoal
