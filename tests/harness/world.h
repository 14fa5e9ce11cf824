// SPDX-License-Identifier: Apache-2.0
//
// Runs a rank body (rank_body.h) in a world of processes on the loopback
// interface, with a deadline.
//
// Whatever happens, no rank outlives the call, nor the test program.

#ifndef SHOAL_TESTS_HARNESS_WORLD_H_
#define SHOAL_TESTS_HARNESS_WORLD_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/base/dialect.h"
#include "shoal/process/child_processes.h"

namespace shoal::tests {

struct WorldOptions {
  // For the bodies, as RankContext::argument.
  std::string argument = {};
  // For the whole world; multiplied by TimeoutScale().
  absl::Duration deadline = absl::Seconds(120);
  // Ranks that have to be killed by this signal in place of returning OK.
  std::map<int, int> killed_by = {};
  // Ranks that have to be stopped (SIGSTOP) once all others have ended. They
  // are killed then.
  std::set<int> stopped = {};
  // Once a rank has failed, for the others to say what they have seen.
  absl::Duration after_failure = absl::Seconds(10);
};

struct RankResult {
  int pid = 0;
  // The harness killed it: because the time was up, because another rank had
  // failed, or as one of `WorldOptions::stopped`.
  bool ended_by_harness = false;
  ChildExit exit;
  // The last parts, if there was much.
  std::string output;
  std::string error_output;
};

struct WorldResult {
  std::vector<RankResult> ranks;
  absl::Duration elapsed;
  bool timed_out = false;

  // Everything, for people.
  std::string ToString() const;
};

// The errors are those of starting the processes.
absl::StatusOr<WorldResult> RunWorld(absl::string_view body, int world_size,
                                     const WorldOptions& options = {});

// Success if every rank ended as `options` say. Otherwise every rank's end and
// output are the message.
::testing::AssertionResult WorldSucceeds(absl::string_view body, int world_size,
                                         const WorldOptions& options = {});

}  // namespace shoal::tests

#endif  // SHOAL_TESTS_HARNESS_WORLD_H_
