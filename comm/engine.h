// SPDX-License-Identifier: Apache-2.0
//
// Runs the schedules of collectives over links: a state machine without
// threads, sockets or clock.
//
// The engine of one rank of one communicator is given operations in order and
// is asked again and again to make progress; each time it moves whatever its
// links will take or give. Several operations may be under way; on each link
// their messages keep the order in which the operations were started.
//
// A message is a header (message_header.h) and its payload, written together.
// Payload that is to be reduced passes through a staging buffer of
// `slice_bytes`, which stays in cache; payload that is to be copied is read
// straight to its place. Nothing is allocated while operations run, once the
// largest number of concurrent operations has been seen.
//
// Failures. The engine finds two: a link ended that an operation still needs
// (`kPeerLost`; the caller finds out why and calls `Fail`), and a message that
// does not fit this rank's own call (`kMismatch`, `kCorrupt`; the status says
// it). After a fault, and after `Fail`, nothing moves any more. A peer that
// sends while this rank is stuck in sending to it, and expects nothing, is
// found out by reading its header ahead. What the engine cannot see is ranks
// that all wait for one another because they called different things: that ends
// by the caller's time-out.
//
// Threads: one at a time.

#ifndef SHOAL_COMM_ENGINE_H_
#define SHOAL_COMM_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shoal/comm/call.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {

struct EngineOptions {
  // Payload is reduced and sent on in slices of at most so many bytes; rounded
  // down to whole elements, at least one.
  std::size_t slice_bytes = 128 * 1024;
};

class Engine {
 public:
  using OperationId = std::uint64_t;  // the operation's sequence number

  // `links` has one element for each rank, null for this one; they must outlive
  // the engine.
  Engine(int rank, int world_size, std::vector<Link*> links,
         const EngineOptions& options);
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Accepts an operation and makes no progress yet. `schedule` and the call's
  // memory must stay valid until the operation is done. Operations are numbered
  // from 1. After a failure the operation is done at once, with its status. A
  // schedule of another rank or world is a failure (`INTERNAL`), and so is one
  // that needs more memory beside the call's than there is
  // (`RESOURCE_EXHAUSTED`); both are faults of this rank (`kUnable`).
  OperationId Start(std::shared_ptr<const Schedule> schedule, const Call& call);

  // Moves what can be moved, on all links; true if anything moved. Never waits.
  // The work of one call is bounded on each link, so that none holds up the
  // others. Once it has returned false, nothing will move before one of the
  // links of `AppendInterest` is ready or an operation is started.
  bool Progress();

  // An operation is done when all of its steps are, or after a failure. Results
  // are kept until `Forget`.
  bool IsDone(OperationId id) const;
  absl::Status result(OperationId id) const;  // REQUIRES: IsDone(id)
  void Forget(OperationId id);                // REQUIRES: IsDone(id)

  // Operations 1 to this one have completed with success; 0: none.
  OperationId last_completed() const;

  // The first fault; kNone while all is well.
  const EngineFault& fault() const;

  // Ends all operations with `status` (not OK), and every later one. The first
  // failure stays, except that the caller's takes the place of a lost peer's:
  // that was a hint, and this is the reason.
  void Fail(const absl::Status& status);

  // Appends the links on which progress depends now; empty when idle.
  void AppendInterest(std::vector<LinkInterest>* interest) const;

  // The peers from which the oldest unfinished operation awaits bytes, and
  // those to which it cannot write, for error messages. In ascending order.
  std::vector<int> AwaitedPeers() const;

  // Appends the engine's whole state (cursors, partial messages, staged
  // bytes), in a form that is equal for equal states, for merging states in
  // exhaustive simulation. The memory of the calls is not in it.
  void AppendState(std::string* state) const;

  // A second engine in the same state, over the same links and the memory of
  // the same calls, for going back in exhaustive simulation.
  std::unique_ptr<Engine> Clone() const;

 private:
  struct Impl;

  explicit Engine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ENGINE_H_
