// SPDX-License-Identifier: Apache-2.0
//
// Runs simulated worlds of engines (simulated_world.h): through all orders of
// events where that is possible, else through one that a seed chooses.
//
// Pure functions; thread-safe.

#ifndef SHOAL_COMM_ENGINE_SIMULATOR_H_
#define SHOAL_COMM_ENGINE_SIMULATOR_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/simulated_world.h"

namespace shoal::internal {

struct ExploreOptions {
  // On each path, so many reads and writes end in the middle of a message; all
  // others go to its end, or as far as bytes or room reach. `kAnyNumber`: no
  // bound.
  static constexpr int kAnyNumber = -1;
  int max_cuts = 0;
  // On each path, at most one rank dies, at any time.
  bool deaths = false;
  // Ranks may end up waiting for one another for ever; that is counted and no
  // error. For calls that no rank can tell to be different from its own.
  bool may_wait_forever = false;
  std::int64_t max_states = 5'000'000;
};

// What was seen, to show that it was there.
struct ExploreSummary {
  std::int64_t states = 0;
  std::int64_t events = 0;
  // Ends of paths: states without an event, all different.
  std::int64_t ends = 0;
  std::int64_t all_finished = 0;  // among the ends: every rank did
  std::int64_t waiting = 0;       // among the ends: someone waits for ever
  // Ranks that had failed at an end, by the kind of fault.
  std::map<EngineFault::Kind, std::int64_t> failed;
  // Ends at which a rank had found a mismatch.
  std::int64_t mismatch_found = 0;

  std::string ToString() const;
};

// Goes through every order of events of the plan's world. States that are equal
// are visited once; two 64-bit hashes stand for a state. An error has the plan
// and the path of events that led to it. `RESOURCE_EXHAUSTED` when there are
// more states than allowed.
absl::StatusOr<ExploreSummary> ExploreAll(const SimulationPlan& plan,
                                          const ExploreOptions& options);

struct RandomSummary {
  SimulationPlan plan;
  std::int64_t events = 0;
  int finished = 0;
  int failed = 0;
  int dead = 0;
  bool disagreed = false;  // one rank had another call
  bool mismatch_found = false;
  bool waiting = false;
};

// One run of a random world of up to 8 ranks with mixed collectives, several
// under way, small links, random lengths of reads and writes, spurious wake-ups
// and, now and then, a death, a rank that gives up, or a call that differs. The
// same seed gives the same run on every machine. An error has the seed, the
// plan and the last events.
absl::StatusOr<RandomSummary> RunRandom(std::uint64_t seed);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ENGINE_SIMULATOR_H_
