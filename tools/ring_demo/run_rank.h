// SPDX-License-Identifier: Apache-2.0
//
// What one rank of the demonstration does, from the first line to the last.

#ifndef SHOAL_TOOLS_RING_DEMO_RUN_RANK_H_
#define SHOAL_TOOLS_RING_DEMO_RUN_RANK_H_

#include <ostream>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/communicator.h"
#include "shoal/tools/ring_demo/flags.h"
#include "shoal/tools/ring_demo/report.h"

namespace shoal::ring_demo {

// Collective. Rank 0 writes every section to `out` as it is done; the others
// write nothing. `report` is filled as far as it goes. Errors: the
// communicator's, `FAILED_PRECONDITION` when the ranks' flags differ, or
// `DATA_LOSS` when anything was wrong, on all ranks.
absl::Status RunSections(Communicator* communicator, const Flags& flags,
                         std::ostream& out, Report* report);

// Runs the sections, and on rank 0 writes the JSON file, if one is asked for.
// `RESOURCE_EXHAUSTED`, which ends the other ranks as well, where memory for
// the largest all-reduce is not to be had.
absl::Status RunRank(Communicator* communicator, const Flags& flags,
                     std::ostream& out);

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_RUN_RANK_H_
