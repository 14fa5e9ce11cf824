// SPDX-License-Identifier: Apache-2.0
//
// Forms a world: from rank 0's address to a connection between all ranks.
//
//   1. Rank 0 listens. Every other rank connects, listens at an address of its
//      own, and says hello: job, rank, world size, address, host.
//   2. When all are there, rank 0 sends everyone the table of all.
//   3. Of each pair, the higher rank connects to the lower (mesh.h).
//   4. Every rank tells rank 0 that it is ready; when all are, rank 0 tells all
//      to go.
//
// Any order of starting will do. Once a hello has been accepted, the end of
// that connection is the death of a rank and ends the attempt for all, with its
// name. docs/wire.md has the bytes and the states.
//
// It runs on the calling thread, with a loop of its own, and returns sockets on
// which nothing is pending. It blocks up to the join time-out and, to let
// others hear why an attempt failed, a second more.
//
// Thread-safe.

#ifndef SHOAL_COMM_BOOTSTRAP_H_
#define SHOAL_COMM_BOOTSTRAP_H_

#include "absl/status/statusor.h"
#include "shoal/comm/joined_world.h"

namespace shoal::internal {

// Errors as TcpCommunicator::Create states them.
absl::StatusOr<JoinedWorld> Bootstrap(BootstrapOptions options);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_BOOTSTRAP_H_
