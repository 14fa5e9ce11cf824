// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/grid_communicators.h"

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/partition/rank_grid.h"

namespace shoal {
namespace {

absl::StatusOr<std::unique_ptr<Communicator>> SplitAlong(
    Communicator* world, const RankGrid& grid, GridAxis axis,
    const CallOptions& options) {
  SHOAL_ASSIGN_OR_RETURN(const std::vector<int> group,
                         grid.Group(axis, world->rank()));
  // Coordinates grow with the ranks.
  return world->Split(/*color=*/group[0], /*key=*/world->rank(), options);
}

}  // namespace

absl::StatusOr<GridCommunicators> SplitByGrid(Communicator* world,
                                              const RankGrid& grid,
                                              const CallOptions& options) {
  if (grid.world_size() != world->world_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SplitByGrid: a grid of ", grid.ToString(), " has ", grid.world_size(),
        " ranks but the world has ", world->world_size()));
  }
  GridCommunicators groups;
  SHOAL_ASSIGN_OR_RETURN(groups.tensor,
                         SplitAlong(world, grid, GridAxis::kTensor, options));
  SHOAL_ASSIGN_OR_RETURN(groups.data,
                         SplitAlong(world, grid, GridAxis::kData, options));
  SHOAL_ASSIGN_OR_RETURN(groups.pipeline,
                         SplitAlong(world, grid, GridAxis::kPipeline, options));
  return groups;
}

}  // namespace shoal
