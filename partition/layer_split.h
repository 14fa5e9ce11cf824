// SPDX-License-Identifier: Apache-2.0
//
// LayerSplit: how many consecutive layers each rank of a pipeline runs, where
// that is not left to PipelineLayerRange: written out by the user, or computed
// for unequal machines (weighted_split.h).
//
// Counts are listed by rank, rank 0 first, as speeds and memories are. The
// order of the blocks is the reversed one of pipeline_partition.h: rank 0 owns
// the last layers. `8,8,10,6` therefore means, of 32 layers,
//
//   rank 0: [24, 32)   rank 1: [16, 24)   rank 2: [6, 16)   rank 3: [0, 6)
//
// An immutable value: every object is valid, and safe to read from any thread.
// Errors are kInvalidArgument.
#ifndef SHOAL_PARTITION_LAYER_SPLIT_H_
#define SHOAL_PARTITION_LAYER_SPLIT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/partition/range.h"

namespace shoal {

class LayerSplit {
 public:
  // The even split, PipelineLayerRange's. An error if num_layers is negative or
  // world_size is not positive.
  static absl::StatusOr<LayerSplit> Even(int64_t num_layers, int world_size);

  // Rank r runs counts[r] layers. An error if there are no counts, one is
  // negative, or they do not sum to num_layers.
  static absl::StatusOr<LayerSplit> FromCounts(
      int64_t num_layers, absl::Span<const int64_t> counts);

  // The split that a user wrote as a list such as "8,8,10,6"; blanks around a
  // number are allowed. An error if an item is no number, if there are not
  // world_size of them, and where FromCounts has one.
  static absl::StatusOr<LayerSplit> Parse(int64_t num_layers, int world_size,
                                          absl::string_view text);

  int64_t num_layers() const { return num_layers_; }
  int world_size() const { return static_cast<int>(counts_.size()); }
  // Number of layers of each rank, by rank.
  const std::vector<int64_t>& counts() const { return counts_; }

  // The layers that `rank` runs. An error if rank is outside [0, world_size()).
  absl::StatusOr<Range> LayerRange(int rank) const;

  // "32 layers: rank 0 [24, 32), rank 1 [16, 24), ...".
  std::string ToString() const;

  friend bool operator==(const LayerSplit&, const LayerSplit&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const LayerSplit& split) {
    return H::combine(std::move(h), split.num_layers_, split.counts_);
  }
  friend std::ostream& operator<<(std::ostream& os, const LayerSplit& split) {
    return os << split.ToString();
  }

 private:
  LayerSplit(int64_t num_layers, std::vector<int64_t> counts)
      : num_layers_(num_layers), counts_(std::move(counts)) {}

  int64_t num_layers_;
  std::vector<int64_t> counts_;
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_LAYER_SPLIT_H_
