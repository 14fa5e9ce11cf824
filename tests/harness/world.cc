// SPDX-License-Identifier: Apache-2.0

#include "shoal/tests/harness/world.h"

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/process/child_processes.h"
#include "shoal/process/local_world.h"
#include "shoal/tests/harness/rank_body.h"

namespace shoal::tests {
namespace {

constexpr std::size_t kKeptBytes = 64 * 1024;

// Appends `*text` to `*kept` and keeps the end of that.
void KeepTail(std::string* text, std::string* kept) {
  kept->append(*text);
  text->clear();
  if (kept->size() > 2 * kKeptBytes) {
    kept->erase(0, kept->size() - kKeptBytes);
  }
}

// Whether a rank ended as it should.
bool AsExpected(int rank, const RankResult& result,
                const WorldOptions& options) {
  if (options.stopped.count(rank) != 0) return result.ended_by_harness;
  if (result.ended_by_harness) return false;
  const auto killed_by = options.killed_by.find(rank);
  return killed_by == options.killed_by.end()
             ? result.exit.ok()
             : result.exit.signal == killed_by->second;
}

void AppendLines(absl::string_view prefix, const std::string& text,
                 std::string* report) {
  if (text.empty()) return;
  for (absl::string_view line :
       absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::StrAppend(report, prefix, line, "\n");
  }
}

// One world while it runs.
class Run {
 public:
  Run(LocalWorld world, const WorldOptions& options)
      : world_(std::move(world)), options_(options) {
    result_.ranks.resize(ranks().size());
    ended_.resize(ranks().size());
    deadline_ = options.deadline * TimeoutScale();
  }

  WorldResult ToTheEnd() {
    while (ranks().running() > 0) {
      ranks().Step(absl::Milliseconds(100));
      for (int rank = 0; rank < ranks().size(); ++rank) Look(rank);
      if (killed_) continue;
      if (OnlyStoppedOnesAreLeft()) {
        KillAll();
      } else if (stopwatch_.Elapsed() > deadline_) {
        // After a failure the deadline is nearer, and not what went wrong.
        result_.timed_out = !failed_;
        KillAll();
      }
    }
    result_.elapsed = stopwatch_.Elapsed();
    return std::move(result_);
  }

 private:
  ChildProcesses& ranks() { return *world_.ranks; }

  // Collects what a rank has printed, and how it ended.
  void Look(int rank) {
    RankResult& result = result_.ranks[rank];
    result.pid = ranks().pid(rank);
    KeepTail(&ranks().output(rank), &result.output);
    KeepTail(&ranks().error_output(rank), &result.error_output);
    if (ranks().is_running(rank) || ended_[rank]) return;
    ended_[rank] = true;
    result.exit = ranks().exit(rank);
    if (!failed_ && !AsExpected(rank, result, options_)) {
      failed_ = true;
      deadline_ =
          std::min(deadline_, stopwatch_.Elapsed() +
                                  options_.after_failure * TimeoutScale());
    }
  }

  // Whether all ranks have ended but those that should be stopped, and those
  // are.
  bool OnlyStoppedOnesAreLeft() {
    for (int rank = 0; rank < ranks().size(); ++rank) {
      if (ranks().is_running(rank) &&
          !(options_.stopped.count(rank) != 0 && ranks().IsStopped(rank))) {
        return false;
      }
    }
    return true;
  }

  void KillAll() {
    killed_ = true;
    for (int rank = 0; rank < ranks().size(); ++rank) {
      if (ranks().is_running(rank)) result_.ranks[rank].ended_by_harness = true;
    }
    ranks().SignalAll(SIGKILL);
  }

  LocalWorld world_;
  const WorldOptions& options_;
  const Stopwatch stopwatch_;
  absl::Duration deadline_;  // from the start
  bool failed_ = false;
  bool killed_ = false;
  std::vector<bool> ended_;
  WorldResult result_;
};

}  // namespace

std::string WorldResult::ToString() const {
  std::string report = absl::StrCat("world of ", ranks.size(), ", ",
                                    absl::FormatDuration(elapsed),
                                    timed_out ? ", not done in time\n" : "\n");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankResult& result = ranks[rank];
    absl::StrAppend(&report, "rank ", rank, " (pid ", result.pid, ") ",
                    result.ended_by_harness ? "was still running and " : "",
                    result.exit.ToString(), "\n");
    AppendLines("  out| ", result.output, &report);
    AppendLines("  err| ", result.error_output, &report);
  }
  return report;
}

absl::StatusOr<WorldResult> RunWorld(absl::string_view body, int world_size,
                                     const WorldOptions& options) {
  if (FindRankBody(body) == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("this program has no rank body \"", body, "\""));
  }
  SHOAL_ASSIGN_OR_RETURN(
      LocalWorld world,
      StartLocalWorld(
          {.world_size = world_size,
           .arguments = {absl::StrCat("rank-of-", body)},
           .environment = {{kBodyVariable, std::string(body)},
                           {kArgumentVariable, options.argument}}}));
  return Run(std::move(world), options).ToTheEnd();
}

::testing::AssertionResult WorldSucceeds(absl::string_view body, int world_size,
                                         const WorldOptions& options) {
  const absl::StatusOr<WorldResult> result =
      RunWorld(body, world_size, options);
  if (!result.ok()) {
    return ::testing::AssertionFailure() << result.status().ToString();
  }
  for (int rank = 0; rank < world_size; ++rank) {
    if (!AsExpected(rank, result->ranks[rank], options)) {
      return ::testing::AssertionFailure()
             << "body " << body
             << (options.argument.empty() ? "" : " with " + options.argument)
             << ": " << result->ToString();
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace shoal::tests
