// SPDX-License-Identifier: Apache-2.0
//
// Who is who in the world: processes, layers and roles.

#ifndef SHOAL_TOOLS_RING_DEMO_RANKS_H_
#define SHOAL_TOOLS_RING_DEMO_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/communicator.h"
#include "shoal/partition/pipeline_partition.h"
#include "shoal/partition/range.h"

namespace shoal::ring_demo {

struct RankInfo {
  int rank = 0;
  std::string host;  // its own name for itself
  std::int64_t pid = 0;
  Range layers;
  BlockRole role = BlockRole::kSingle;
};

// Collective: every rank tells the others what it is. All get the same.
// `FAILED_PRECONDITION`, on all ranks, if their numbers of layers or bytes of
// the largest all-reduce (`max_bytes`) differ. Otherwise the communicator's
// errors.
absl::StatusOr<std::vector<RankInfo>> GatherRanks(Communicator* communicator,
                                                  std::int64_t num_layers,
                                                  std::int64_t max_bytes);

// The layers in words: "8..15", "8" or "none".
std::string LayersText(const Range& layers);

// The table, for people.
std::string RanksText(const std::vector<RankInfo>& ranks);

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_RANKS_H_
