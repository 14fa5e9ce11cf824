// SPDX-License-Identifier: Apache-2.0
//
// Runs the demonstration as a world of processes on this machine.
//
// Each rank ends its output with a verdict line (verdict.h); the launcher shows
// the rest, and its caller puts one verdict in place of all of theirs. When a
// rank fails or a signal asks for the end, every rank is gone in little more
// than a second.

#ifndef SHOAL_TOOLS_RING_DEMO_LAUNCHER_H_
#define SHOAL_TOOLS_RING_DEMO_LAUNCHER_H_

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/tools/ring_demo/flags.h"

namespace shoal::ring_demo {

struct LaunchResult {
  // Why it failed, for the verdict; empty if it did not.
  std::string failure;
  // The signal that ended the run (Ctrl-C, ...); 0: none.
  int interrupted_by = 0;
};

// Starts `flags.world` ranks, with `program_name` as their argv[0], and waits
// for them. What rank 0 prints goes to `out` as it comes, and what any rank
// complains of to `errors`. The error is that of starting them.
absl::StatusOr<LaunchResult> Launch(const std::string& program_name,
                                    const Flags& flags, std::ostream& out,
                                    std::ostream& errors);

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_LAUNCHER_H_
