// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/launcher.h"

#include <signal.h>

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/process/child_processes.h"
#include "shoal/process/local_world.h"
#include "shoal/process/termination_signals.h"
#include "shoal/tools/common/verdict.h"
#include "shoal/tools/common/world_outcome.h"

namespace shoal::tools {
namespace {

// Enough for every rank to hear of the failure, say so and close.
constexpr absl::Duration kTimeToEnd = absl::Seconds(1);

// Removes the first line from `text`, without its line feed; nothing if there
// is no whole line. At the end of the stream what is left is a line as well.
std::optional<std::string> TakeLine(std::string* text, bool at_end) {
  const std::size_t end = text->find('\n');
  if (end == std::string::npos && (!at_end || text->empty())) {
    return std::nullopt;
  }
  std::string line = text->substr(0, end);
  text->erase(0, end == std::string::npos ? end : end + 1);
  return line;
}

class Launcher {
 public:
  Launcher(const std::string& program, LocalWorld world, std::ostream& out,
           std::ostream& errors)
      : program_(program),
        world_(std::move(world)),
        out_(out),
        errors_(errors),
        ends_(world_.ranks->size()) {}

  LaunchResult Run(const TerminationSignals& signals) {
    while (ranks().running() > 0) {
      ranks().Step(absl::Milliseconds(100));
      if (interrupted_by_ == 0 && signals.received() != 0) {
        interrupted_by_ = signals.received();
        ranks().SignalAll(interrupted_by_);
        if (!ending_.has_value()) ending_.emplace();
      }
      for (int rank = 0; rank < ranks().size(); ++rank) Look(rank);
      if (ending_.has_value() && ending_->Elapsed() > kTimeToEnd) KillAll();
    }
    out_.flush();
    if (interrupted_by_ == 0) errors_ << Complaints(ends_) << std::flush;
    return {WhyFailed(ends_, interrupted_by_), interrupted_by_};
  }

 private:
  ChildProcesses& ranks() { return *world_.ranks; }

  // Passes on what a rank has printed, and notes how it ended.
  void Look(int rank) {
    RankEnd& end = ends_[rank];
    const bool ended = !ranks().is_running(rank);
    while (const auto line = TakeLine(&ranks().output(rank), ended)) {
      if (const auto verdict = ReadVerdict(program_, *line)) {
        end.verdict = verdict;
      } else if (interrupted_by_ == 0) {
        out_ << *line << std::endl;
      }
    }
    while (const auto line = TakeLine(&ranks().error_output(rank), ended)) {
      // After an interrupt ranks complain of each other's end.
      if (interrupted_by_ == 0) {
        errors_ << "rank " << rank << ": " << *line << std::endl;
      }
    }
    end.pid = ranks().pid(rank);
    if (!ended) return;
    end.exit = ranks().exit(rank);
    if (!end.exit.ok() && !ending_.has_value()) ending_.emplace();
  }

  void KillAll() {
    for (int rank = 0; rank < ranks().size(); ++rank) {
      if (ranks().is_running(rank)) ends_[rank].ended_by_launcher = true;
    }
    ranks().SignalAll(SIGKILL);
  }

  const std::string program_;
  LocalWorld world_;
  std::ostream& out_;
  std::ostream& errors_;
  std::vector<RankEnd> ends_;
  int interrupted_by_ = 0;
  // Since a rank failed, or a signal came.
  std::optional<Stopwatch> ending_;
};

}  // namespace

absl::StatusOr<LaunchResult> Launch(const LaunchOptions& options,
                                    std::ostream& out, std::ostream& errors) {
  LocalWorldOptions world_options;
  world_options.world_size = options.world_size;
  world_options.arguments = options.arguments;
  // Before the ranks: a signal while they start is noted as well.
  const TerminationSignals signals;
  SHOAL_ASSIGN_OR_RETURN(LocalWorld world, StartLocalWorld(world_options));
  return Launcher(options.program, std::move(world), out, errors).Run(signals);
}

}  // namespace shoal::tools
