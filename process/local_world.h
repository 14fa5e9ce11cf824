// SPDX-License-Identifier: Apache-2.0
//
// A world of ranks on this machine: one child process a rank, each of which
// joins by `CommunicatorFromEnvironment` (shoal/comm/environment.h).
//
// The launcher binds a free port of the loopback interface before any rank
// exists, and rank 0 inherits the listening descriptor: there is no race for
// ports, and the ranks may start in any order.

#ifndef SHOAL_PROCESS_LOCAL_WORLD_H_
#define SHOAL_PROCESS_LOCAL_WORLD_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/process/child_processes.h"

namespace shoal {

struct LocalWorldOptions {
  int world_size = 1;
  // All of argv, for every rank. The program is the one that runs now.
  std::vector<std::string> arguments;
  // For every rank, besides the variables that describe the world.
  std::vector<std::pair<std::string, std::string>> environment;
};

struct LocalWorld {
  // Child r is rank r.
  std::unique_ptr<ChildProcesses> ranks;
  std::string address;  // rank 0's; empty for a world of one
  std::string job_id;   // differs from that of any other world
};

// Starts all ranks. `INVALID_ARGUMENT` for a world size below 1; otherwise the
// errors of TcpListener::Bind and ChildProcesses::Start.
absl::StatusOr<LocalWorld> StartLocalWorld(const LocalWorldOptions& options);

}  // namespace shoal

#endif  // SHOAL_PROCESS_LOCAL_WORLD_H_
