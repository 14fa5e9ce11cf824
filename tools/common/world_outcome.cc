// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/world_outcome.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shoal/process/child_processes.h"

namespace shoal::tools {
namespace {

bool WasKilled(const RankEnd& rank) {
  return rank.exit.signal != 0 && !rank.ended_by_launcher;
}

// How a rank failed, in its own words where it has some; empty if it did not.
std::string Complaint(const RankEnd& rank) {
  if (rank.ended_by_launcher) return "did not end by itself and was killed";
  if (rank.verdict.has_value() && !rank.verdict->empty()) return *rank.verdict;
  if (rank.exit.ok() && rank.verdict.has_value()) return "";
  if (rank.exit.ok()) return "ended without a verdict";
  return rank.exit.ToString();
}

// How little the complaint of a rank that failed explains.
int Vagueness(const RankEnd& rank) {
  if (rank.ended_by_launcher) return 2;
  return rank.verdict.has_value() && !rank.verdict->empty() ? 0 : 1;
}

// Complaints with the ranks that made them, by the lowest of those.
std::vector<std::pair<std::string, std::vector<int>>> GroupComplaints(
    const std::vector<RankEnd>& ranks) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string complaint = Complaint(ranks[rank]);
    if (complaint.empty()) continue;
    std::size_t i = 0;
    while (i < groups.size() && groups[i].first != complaint) ++i;
    if (i == groups.size()) groups.emplace_back(complaint, std::vector<int>());
    groups[i].second.push_back(static_cast<int>(rank));
  }
  return groups;
}

std::string RanksText(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks, ", "));
}

}  // namespace

std::string WhyFailed(const std::vector<RankEnd>& ranks, int interrupted_by) {
  if (interrupted_by != 0) {
    return absl::StrCat("interrupted by ", SignalName(interrupted_by));
  }
  std::vector<std::string> deaths;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!WasKilled(ranks[rank])) continue;
    deaths.push_back(absl::StrCat("rank ", rank, " (pid ", ranks[rank].pid,
                                  ") ", ranks[rank].exit.ToString()));
  }
  if (!deaths.empty()) return absl::StrJoin(deaths, "; ");
  const auto groups = GroupComplaints(ranks);
  if (groups.empty()) return "";
  // The first of those that explain most.
  const auto& [complaint, by] = *std::min_element(
      groups.begin(), groups.end(), [&ranks](const auto& a, const auto& b) {
        return Vagueness(ranks[a.second.front()]) <
               Vagueness(ranks[b.second.front()]);
      });
  if (by.size() == ranks.size()) return complaint;
  return absl::StrCat(RanksText(by), ": ", complaint);
}

std::string Complaints(const std::vector<RankEnd>& ranks) {
  std::string text;
  for (const auto& [complaint, by] : GroupComplaints(ranks)) {
    absl::StrAppend(&text, RanksText(by), ": ", complaint, "\n");
  }
  return text;
}

}  // namespace shoal::tools
