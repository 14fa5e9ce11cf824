// SPDX-License-Identifier: Apache-2.0
//
// The groups of a rank grid (partition/rank_grid.h) as communicators.
//
// The rules of the results are those of `Communicator::Split`.

#ifndef SHOAL_COMM_GRID_COMMUNICATORS_H_
#define SHOAL_COMM_GRID_COMMUNICATORS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/partition/rank_grid.h"

namespace shoal {

// This rank's end of its group along each axis. A rank of a group is the
// coordinate along its axis.
struct GridCommunicators {
  std::unique_ptr<Communicator> tensor;
  std::unique_ptr<Communicator> data;
  std::unique_ptr<Communicator> pipeline;
};

// Collective over `world`: three splits, each with the time-out of `options`.
// `INVALID_ARGUMENT`, and nothing is sent, unless the grid has as many ranks as
// the world; else the errors of `Split`.
absl::StatusOr<GridCommunicators> SplitByGrid(Communicator* world,
                                              const RankGrid& grid,
                                              const CallOptions& options = {});

}  // namespace shoal

#endif  // SHOAL_COMM_GRID_COMMUNICATORS_H_
