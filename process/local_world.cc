// SPDX-License-Identifier: Apache-2.0

#include "shoal/process/local_world.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/tcp_listener.h"
#include "shoal/process/child_processes.h"

namespace shoal {
namespace {

// A listener on a free port, for a child to inherit.
absl::StatusOr<int> ListenForChild(std::string* address) {
  SHOAL_ASSIGN_OR_RETURN(TcpListener listener,
                         TcpListener::Bind("127.0.0.1:0"));
  *address = listener.address();
  const int descriptor = std::move(listener).ReleaseDescriptor();
  if (descriptor > STDERR_FILENO) return descriptor;
  // This process was started without one of 0, 1 and 2, which the child is
  // going to replace.
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(descriptor);
  if (moved < 0) {
    return absl::ErrnoToStatus(error, "cannot duplicate the listening socket");
  }
  return moved;
}

}  // namespace

absl::StatusOr<LocalWorld> StartLocalWorld(const LocalWorldOptions& options) {
  if (options.world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a world has at least one rank, not ", options.world_size));
  }
  LocalWorld world;
  world.job_id =
      absl::StrCat("local-", getpid(), "-", absl::GetCurrentTimeNanos());
  // Only rank 0 may keep the socket: with its death, connections are refused.
  // A single rank has nobody to listen for.
  int descriptor = -1;
  const auto close_descriptor = absl::MakeCleanup([&descriptor] {
    if (descriptor >= 0) close(descriptor);
  });
  if (options.world_size > 1) {
    SHOAL_ASSIGN_OR_RETURN(descriptor, ListenForChild(&world.address));
  }

  std::vector<ChildCommand> commands(options.world_size);
  for (int rank = 0; rank < options.world_size; ++rank) {
    ChildCommand& command = commands[rank];
    command.arguments = options.arguments;
    command.environment = options.environment;
    command.environment.insert(
        command.environment.end(),
        {{"SHOAL_RANK", absl::StrCat(rank)},
         {"SHOAL_WORLD_SIZE", absl::StrCat(options.world_size)},
         {"SHOAL_JOB_ID", world.job_id}});
    if (descriptor < 0) continue;
    command.environment.emplace_back("SHOAL_ADDRESS", world.address);
    if (rank == 0) {
      command.environment.emplace_back("SHOAL_LISTEN_FD",
                                       absl::StrCat(descriptor));
      command.inherited_descriptors = {descriptor};
    }
  }
  SHOAL_ASSIGN_OR_RETURN(world.ranks, ChildProcesses::Start(commands));
  return world;
}

}  // namespace shoal
