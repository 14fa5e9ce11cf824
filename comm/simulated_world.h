// SPDX-License-Identifier: Apache-2.0
//
// A whole world of engines over simulated links: no threads, no clock. What
// happens is a sequence of events, chosen by whoever runs the simulation
// (engine_simulator.h), and the world says which are possible.
//
// Each rank is driven as a real one is: it starts its calls in order, calls
// `Progress` until nothing moves, and then waits for one of the links in which
// its engine is interested; an event is such a link becoming ready, for so many
// bytes. A wake-up that the engine forgets to ask for is therefore a rank that
// waits for ever. A rank that has finished its calls, or failed, leaves at
// once: its links end behind the bytes that are under way. A rank may die, with
// those bytes or without them.
//
// Checked after every event, and an error of `Apply`: a call that succeeds has
// the result that it should have and has touched nothing else; no call succeeds
// that cannot have, and no barrier before every rank has entered it; a fault
// has the right kind and names a rank that is gone; `Progress` comes to rest.
//
// A world is a value: a copy goes its own way. Copies share what has not
// changed, and one piece of call memory in which the engine of the moment
// works; so they belong to one thread.

#ifndef SHOAL_COMM_SIMULATED_WORLD_H_
#define SHOAL_COMM_SIMULATED_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/simulated_call.h"
#include "shoal/comm/simulated_link.h"

namespace shoal::internal {

struct SimulationPlan {
  int world_size = 2;
  // By rank. The ranks may disagree.
  std::vector<std::vector<SimulatedCall>> calls;
  std::size_t slice_bytes = 8;
  // Of each direction of a link.
  std::size_t capacity_bytes = 1 << 20;
  // Calls that a rank has under way at once.
  int concurrent = 1;

  std::string ToString() const;
};

struct SimulatedEvent {
  enum class Kind {
    kRead,        // the link from `peer` gives
    kWrite,       // the link to `peer` takes
    kDie,         // what is under way from the rank arrives
    kDieLossily,  // and here it does not
    kGiveUp,      // the rank's time-out
  };
  Kind kind = Kind::kRead;
  int rank = 0;
  int peer = -1;
  Permit permit;
  // The permit ends in the middle of a message.
  bool cut = false;

  std::string ToString() const;
};

class SimulatedWorld {
 public:
  enum class Fate { kRunning, kFinished, kFailed, kDead };

  // All ranks have started what they can.
  explicit SimulatedWorld(const SimulationPlan& plan);

  // Every link that a waiting rank is interested in and that is ready, with
  // whole messages and, if `with_cuts`, also cut at one byte, inside the
  // header, at its end and inside an element.
  void AppendEvents(bool with_cuts, std::vector<SimulatedEvent>* events) const;

  // Not OK: a property was violated. Any event will do, also one that is not
  // among those of `AppendEvents` (a spurious wake-up).
  absl::Status Apply(const SimulatedEvent& event);

  // When no event is left: everyone has come to an end, without a failure if
  // nothing has happened that explains one.
  absl::Status CheckEnd() const;

  Fate fate(int rank) const { return ranks_[rank].fate; }
  // Why it failed; kNone also if it gave up.
  EngineFault::Kind fault(int rank) const { return ranks_[rank].fault; }
  absl::Status status(int rank) const { return ranks_[rank].status; }
  std::string memory(int rank) const { return *ranks_[rank].memory; }

  // Equal for equal worlds.
  void AppendState(std::string* state) const;

 private:
  struct Shared;

  struct Rank {
    std::shared_ptr<Engine> engine;  // of one or several copies
    std::shared_ptr<const std::string> memory;
    Fate fate = Fate::kRunning;
    std::vector<bool> done;  // of the calls started so far
    EngineFault::Kind fault = EngineFault::Kind::kNone;
    absl::Status status;
    // The engine's, the memory's and the fate's; empty: to be written.
    mutable std::string state;
  };

  SimulatedPipe& pipe(int from, int to);
  const SimulatedPipe& pipe(int from, int to) const;

  absl::Status Drive(int index);
  absl::Status Advance(int index);
  absl::Status CheckDone(int index);
  absl::Status CheckResult(int index, int call) const;
  absl::Status CheckFault(int index) const;
  void StartCalls(int index);
  void Leave(int index, bool lossily);
  bool MaySucceed(int rank, int call) const;
  static const std::string& StateOf(const Rank& rank);

  std::shared_ptr<Shared> shared_;
  std::vector<Rank> ranks_;
  std::vector<SimulatedPipe> pipes_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SIMULATED_WORLD_H_
