// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/rank_grid.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/checked_math.h"

namespace shoal {
namespace {

// The ranks of a group of `size` that begins with `first`.
std::vector<int> RanksFrom(int first, int size, int stride) {
  std::vector<int> ranks;
  ranks.reserve(size);
  for (int i = 0; i < size; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

}  // namespace

absl::string_view GridAxisName(GridAxis axis) {
  switch (axis) {
    case GridAxis::kTensor:
      return "tensor";
    case GridAxis::kData:
      return "data";
    case GridAxis::kPipeline:
      return "pipeline";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& os, GridAxis axis) {
  return os << GridAxisName(axis);
}

std::string GridCoordinates::ToString() const {
  return absl::StrCat("(tensor ", tensor, ", data ", data, ", pipeline ",
                      pipeline, ")");
}

absl::StatusOr<RankGrid> RankGrid::Create(int tensor_size, int data_size,
                                          int pipeline_size) {
  constexpr absl::string_view kCaller = "RankGrid::Create";
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "tensor size", tensor_size));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "data size", data_size));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "pipeline size", pipeline_size));
  const RankGrid grid(tensor_size, data_size, pipeline_size);
  // The product of two ints is an int64_t.
  const std::optional<int64_t> world_size = internal::CheckedMultiply(
      int64_t{tensor_size} * data_size, pipeline_size);
  if (!world_size.has_value() ||
      *world_size > std::numeric_limits<int>::max()) {
    return absl::OutOfRangeError(absl::StrCat(
        kCaller, ": ", grid.ToString(), " is more than ",
        std::numeric_limits<int>::max(), " ranks; use smaller sizes"));
  }
  return grid;
}

absl::StatusOr<GridCoordinates> RankGrid::Coordinates(int rank) const {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckRank("RankGrid::Coordinates", rank, world_size()));
  return GridCoordinates{
      .tensor = rank % tensor_size_,
      .data = rank / tensor_size_ % data_size_,
      .pipeline = rank / tensor_size_ / data_size_,
  };
}

absl::StatusOr<int> RankGrid::Rank(const GridCoordinates& coordinates) const {
  const auto inside = [](int coordinate, int size) {
    return coordinate >= 0 && coordinate < size;
  };
  if (!inside(coordinates.tensor, tensor_size_) ||
      !inside(coordinates.data, data_size_) ||
      !inside(coordinates.pipeline, pipeline_size_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("RankGrid::Rank: coordinates ", coordinates.ToString(),
                     " lie outside the grid ", ToString()));
  }
  return coordinates.tensor +
         tensor_size_ * (coordinates.data + data_size_ * coordinates.pipeline);
}

absl::StatusOr<RankGrid::AxisLayout> RankGrid::Layout(absl::string_view caller,
                                                      GridAxis axis) const {
  switch (axis) {
    case GridAxis::kTensor:
      return AxisLayout{tensor_size_, 1};
    case GridAxis::kData:
      return AxisLayout{data_size_, tensor_size_};
    case GridAxis::kPipeline:
      return AxisLayout{pipeline_size_, tensor_size_ * data_size_};
  }
  return absl::InvalidArgumentError(
      absl::StrCat(caller, ": axis must be kTensor, kData or kPipeline, got ",
                   static_cast<int>(axis)));
}

absl::StatusOr<std::vector<int>> RankGrid::Group(GridAxis axis,
                                                 int rank) const {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckRank("RankGrid::Group", rank, world_size()));
  SHOAL_ASSIGN_OR_RETURN(const AxisLayout layout,
                         Layout("RankGrid::Group", axis));
  const int coordinate = rank / layout.stride % layout.size;
  return RanksFrom(rank - coordinate * layout.stride, layout.size,
                   layout.stride);
}

absl::StatusOr<std::vector<std::vector<int>>> RankGrid::Groups(
    GridAxis axis) const {
  SHOAL_ASSIGN_OR_RETURN(const AxisLayout layout,
                         Layout("RankGrid::Groups", axis));
  std::vector<std::vector<int>> groups;
  groups.reserve(world_size() / layout.size);
  for (int rank = 0; rank < world_size(); ++rank) {
    // A rank at coordinate 0 is the first of its group.
    if (rank / layout.stride % layout.size != 0) continue;
    groups.push_back(RanksFrom(rank, layout.size, layout.stride));
  }
  return groups;
}

absl::StatusOr<std::optional<int>> RankGrid::ActivationSource(int rank) const {
  SHOAL_RETURN_IF_ERROR(
      internal::CheckRank("RankGrid::ActivationSource", rank, world_size()));
  const int stride = tensor_size_ * data_size_;
  // Not rank + stride < world_size(), whose left side may overflow.
  if (rank >= world_size() - stride) return std::optional<int>();
  return std::optional<int>(rank + stride);
}

absl::StatusOr<std::optional<int>> RankGrid::ActivationDestination(
    int rank) const {
  SHOAL_RETURN_IF_ERROR(internal::CheckRank("RankGrid::ActivationDestination",
                                            rank, world_size()));
  const int stride = tensor_size_ * data_size_;
  if (rank < stride) return std::optional<int>();
  return std::optional<int>(rank - stride);
}

std::string RankGrid::ToString() const {
  return absl::StrCat("tensor ", tensor_size_, " x data ", data_size_,
                      " x pipeline ", pipeline_size_);
}

}  // namespace shoal
