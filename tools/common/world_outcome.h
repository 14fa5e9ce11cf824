// SPDX-License-Identifier: Apache-2.0
//
// What came of a world of ranks, judged by how each of them ended.
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_COMMON_WORLD_OUTCOME_H_
#define SHOAL_TOOLS_COMMON_WORLD_OUTCOME_H_

#include <optional>
#include <string>
#include <vector>

#include "shoal/base/dialect.h"
#include "shoal/process/child_processes.h"

namespace shoal::tools {

struct RankEnd {
  int pid = 0;
  ChildExit exit;
  // It was still running when its time after another's failure was up.
  bool ended_by_launcher = false;
  // As in verdict.h; nothing if it gave none.
  std::optional<std::string> verdict;
};

// Why the world failed, in a line; empty if it did not. `interrupted_by` is a
// signal that the launcher got, or 0. In this order: the signal; the ranks that
// were killed, whose death is what the others complain of; what the lowest rank
// that gave a verdict says; the exit code of the lowest rank that has none;
// that the launcher had to end ranks, of which others may know why.
std::string WhyFailed(const std::vector<RankEnd>& ranks, int interrupted_by);

// What all ranks that failed say, the same words once: lines such as
// "ranks 0, 2: UNAVAILABLE: rank 1 died". Empty if none failed.
std::string Complaints(const std::vector<RankEnd>& ranks);

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_WORLD_OUTCOME_H_
