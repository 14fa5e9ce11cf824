// SPDX-License-Identifier: Apache-2.0
//
// A world whose ranks are threads of one process.
//
// It runs the same engine and the same schedules as the ranks of a TCP world,
// over links in memory: a test double that needs no port, and the oracle that
// other communicators are held against.
//
// Each communicator of a world belongs to one rank and follows the rules of
// communicator.h; different ranks' communicators are used from different
// threads, and may be destroyed in any order. A rank whose communicator is
// destroyed has left: an operation of another rank that needs it fails with
// UNAVAILABLE.

#ifndef SHOAL_COMM_IN_PROCESS_COMMUNICATOR_H_
#define SHOAL_COMM_IN_PROCESS_COMMUNICATOR_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/timeouts.h"

namespace shoal {

struct InProcessOptions {
  // How long an operation may take, unless the call says otherwise.
  absl::Duration operation_timeout = kDefaultOperationTimeout;
  AlgorithmPolicy policy;
  // What a link holds in each direction before the writer has to wait.
  std::size_t link_capacity_bytes = 256 * 1024;
  // Payload is reduced and passed on in slices of at most so many bytes.
  std::size_t slice_bytes = 128 * 1024;
};

class InProcessCommunicator {
 public:
  // The communicators of a whole world; element r is rank r's.
  // `INVALID_ARGUMENT` for a world size below 1 or a capacity or slice of 0,
  // `RESOURCE_EXHAUSTED` when the process has no descriptor left (each rank
  // needs one).
  static absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateWorld(
      int world_size, const InProcessOptions& options = {});

  InProcessCommunicator() = delete;
};

}  // namespace shoal

#endif  // SHOAL_COMM_IN_PROCESS_COMMUNICATOR_H_
