// SPDX-License-Identifier: Apache-2.0
//
// Joins a world of processes that exchange data over TCP.
//
// The address of rank 0 is all that a rank needs to know. The ranks may start
// in any order; each waits for the others up to the join time-out. Rank 0
// decides for all: its algorithm policy is the one that every rank follows.
//
// While a world exists, one parked thread a process watches its control links,
// so that the death of a rank, or an abort, reaches every rank whatever it is
// doing. Data never passes through that thread.
//
// Destroying the communicator says goodbye to the others and waits, for at most
// `Timeouts::close`, until what it has sent has arrived.
//
// A process that forks: its child must neither use nor destroy communicators of
// the parent. All their descriptors are closed in it, so that it does not keep
// a dead parent's connections alive.
//
// Strangers. Whoever can reach the address of a rank while it runs can try to
// join: what does not know the job's id is dropped with a line in the log.
// There is no secret yet, so bind to addresses that only friends can reach.

#ifndef SHOAL_COMM_TCP_COMMUNICATOR_H_
#define SHOAL_COMM_TCP_COMMUNICATOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/tcp_listener.h"
#include "shoal/comm/timeouts.h"

namespace shoal {

struct TcpOptions {
  int rank = 0;
  int world_size = 1;

  // Rank 0's "host:port", as the other ranks reach it. Rank 0 listens there,
  // unless it is given a `listener`.
  std::string address;

  // Rank 0 only: already bound, to `address` or to what `address` leads to.
  std::optional<TcpListener> listener;

  // The same on all ranks; keeps two jobs apart that meet by mistake.
  std::string job_id;

  // A host name or address, without port, under which the other ranks reach
  // this one. Empty: the local address of the connection to rank 0. Not used
  // by rank 0, whose address is `address`.
  std::string advertise_host;

  Timeouts timeouts;

  // Rank 0's counts, on all ranks.
  AlgorithmPolicy algorithm_policy;

  // Gets one line for each stranger that was turned away, and the like, from
  // any thread. Empty: standard error.
  std::function<void(absl::string_view)> log;
};

class TcpCommunicator {
 public:
  // Blocks until all ranks have joined. A world of one rank opens no socket.
  //
  // Errors: `INVALID_ARGUMENT` for options that cannot be; those of
  // TcpListener::Bind on rank 0; `DEADLINE_EXCEEDED` after
  // `Timeouts::join`, naming the ranks that never came, or rank 0's address
  // and what was wrong with it last; `FAILED_PRECONDITION` when rank 0 turned
  // this rank away (another world size, job id or version; the rank was there
  // already), saying why; `UNAVAILABLE` when a rank died while the world was
  // forming, naming it. Thread-safe.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      TcpOptions options);
};

}  // namespace shoal

#endif  // SHOAL_COMM_TCP_COMMUNICATOR_H_
