// SPDX-License-Identifier: Apache-2.0
//
// Runs a program as a world of processes on this machine.
//
// Each rank ends its output with a verdict line (verdict.h); the launcher shows
// the rest, and its caller puts one verdict in place of all of theirs. When a
// rank fails or a signal asks for the end, every rank is gone in little more
// than a second.

#ifndef SHOAL_TOOLS_COMMON_LAUNCHER_H_
#define SHOAL_TOOLS_COMMON_LAUNCHER_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"

namespace shoal::tools {

struct LaunchOptions {
  // As verdict lines have it: "ring_demo".
  std::string program;
  int world_size = 1;
  // All of argv, for every rank.
  std::vector<std::string> arguments;
};

struct LaunchResult {
  // Why it failed, for the verdict; empty if it did not.
  std::string failure;
  // The signal that ended the run (Ctrl-C, ...); 0: none.
  int interrupted_by = 0;
};

// Starts the ranks, which run the program that runs now, and waits for them.
// What a rank prints goes to `out` as it comes, and what any rank complains of
// to `errors`. The error is that of starting them.
absl::StatusOr<LaunchResult> Launch(const LaunchOptions& options,
                                    std::ostream& out, std::ostream& errors);

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_LAUNCHER_H_
