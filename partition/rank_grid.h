// SPDX-License-Identifier: Apache-2.0
//
// RankGrid: one world of ranks laid out along three axes of parallelism.
//
// Rank numbers run fastest along the tensor axis, then data, then pipeline:
//
//   rank = tensor + tensor_size * (data + data_size * pipeline)
//
// so that the ranks of a tensor-parallel group, which talk most, have
// neighbouring numbers and usually share a machine. A grid of 2 x 2 x 2:
//
//   pipeline 0   data 0: ranks 0 1    data 1: ranks 2 3
//   pipeline 1   data 0: ranks 4 5    data 1: ranks 6 7
//
// A *group* along an axis is the set of ranks that differ in that coordinate
// only. Coordinates along the pipeline axis are pipeline ranks in the reversed
// order of pipeline_partition.h: activations flow from the highest pipeline
// coordinate, which embeds, to 0, which produces logits.
//
// An immutable value: every object is valid, and safe to read from any thread.
// Errors are kInvalidArgument and name the rank, the coordinates and the grid.
#ifndef SHOAL_PARTITION_RANK_GRID_H_
#define SHOAL_PARTITION_RANK_GRID_H_

#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal {

enum class GridAxis { kTensor, kData, kPipeline };

// "tensor", "data" or "pipeline"; "unknown" for a value that is none of the
// enumerators.
absl::string_view GridAxisName(GridAxis axis);
std::ostream& operator<<(std::ostream& os, GridAxis axis);

// Where a rank stands in a grid. A plain value.
struct GridCoordinates {
  int tensor = 0;
  int data = 0;
  int pipeline = 0;

  // "(tensor 1, data 0, pipeline 2)".
  std::string ToString() const;

  friend bool operator==(const GridCoordinates&,
                         const GridCoordinates&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const GridCoordinates& c) {
    return H::combine(std::move(h), c.tensor, c.data, c.pipeline);
  }
  friend std::ostream& operator<<(std::ostream& os, const GridCoordinates& c) {
    return os << c.ToString();
  }
};

class RankGrid {
 public:
  // A grid of tensor_size x data_size x pipeline_size ranks. kInvalidArgument
  // if a size is not positive, kOutOfRange if their product is not an int.
  static absl::StatusOr<RankGrid> Create(int tensor_size, int data_size,
                                         int pipeline_size);

  int tensor_size() const { return tensor_size_; }
  int data_size() const { return data_size_; }
  int pipeline_size() const { return pipeline_size_; }
  // Number of ranks, the product of the three sizes.
  int world_size() const { return tensor_size_ * data_size_ * pipeline_size_; }

  absl::StatusOr<GridCoordinates> Coordinates(int rank) const;
  absl::StatusOr<int> Rank(const GridCoordinates& coordinates) const;

  // The group of `rank` along `axis`, in the order of that coordinate: the rank
  // itself stands at the place that its coordinate gives. The first of a group
  // is its lowest rank, and no other group along the axis has it: a fitting
  // color for splitting a communicator.
  absl::StatusOr<std::vector<int>> Group(GridAxis axis, int rank) const;

  // All groups along `axis`, ordered by their first ranks. Every rank is in
  // exactly one.
  absl::StatusOr<std::vector<std::vector<int>>> Groups(GridAxis axis) const;

  // The rank from which `rank` receives activations: the one at the next higher
  // pipeline coordinate. No value for the first stage, which embeds.
  absl::StatusOr<std::optional<int>> ActivationSource(int rank) const;

  // The rank to which `rank` sends activations: the one at the next lower
  // pipeline coordinate. No value at pipeline coordinate 0, which produces
  // logits.
  absl::StatusOr<std::optional<int>> ActivationDestination(int rank) const;

  // "tensor 2 x data 1 x pipeline 4".
  std::string ToString() const;

  friend bool operator==(const RankGrid&, const RankGrid&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const RankGrid& grid) {
    return H::combine(std::move(h), grid.tensor_size_, grid.data_size_,
                      grid.pipeline_size_);
  }
  friend std::ostream& operator<<(std::ostream& os, const RankGrid& grid) {
    return os << grid.ToString();
  }

 private:
  // An axis as seen from the rank numbers: `size` ranks that are `stride`
  // apart.
  struct AxisLayout {
    int size;
    int stride;
  };

  RankGrid(int tensor_size, int data_size, int pipeline_size)
      : tensor_size_(tensor_size),
        data_size_(data_size),
        pipeline_size_(pipeline_size) {}

  absl::StatusOr<AxisLayout> Layout(absl::string_view caller,
                                    GridAxis axis) const;

  int tensor_size_;
  int data_size_;
  int pipeline_size_;
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_RANK_GRID_H_
