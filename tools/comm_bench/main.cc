// SPDX-License-Identifier: Apache-2.0
//
// Measures collectives; HelpText() in flags.cc says how to call it.

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/usable_cores.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/environment.h"
#include "shoal/tools/comm_bench/bandwidth_plot.h"
#include "shoal/tools/comm_bench/explain.h"
#include "shoal/tools/comm_bench/flags.h"
#include "shoal/tools/comm_bench/results.h"
#include "shoal/tools/comm_bench/run_bench.h"
#include "shoal/tools/common/files.h"
#include "shoal/tools/common/world_program.h"

namespace shoal::comm_bench {
namespace {

constexpr char kName[] = "comm_bench";

// What the command line and the environment ask for.
struct Job {
  Flags flags;
  EnvironmentOptions environment;
};

absl::Status CheckWorld(Job* job) {
  SHOAL_ASSIGN_OR_RETURN(
      const bool joins,
      tools::PrepareWorld(job->environment, job->flags.world != 0));
  if (joins && job->flags.explain) {
    return absl::InvalidArgumentError(
        "--explain takes --world, not --rank, --world_size, --address or their "
        "SHOAL_ variables: rank 0 of a world chooses, and no rank is needed to "
        "know how");
  }
  if (joins) return absl::OkStatus();
  if (job->flags.world == 0) job->flags.world = kDefaultWorld;
  if (job->flags.root >= job->flags.world) {
    return absl::InvalidArgumentError(absl::StrCat("--root ", job->flags.root,
                                                   " is outside a world of ",
                                                   job->flags.world, " ranks"));
  }
  for (const std::string& path :
       {job->flags.json, job->flags.svg, job->flags.trace}) {
    // Now rather than after a long run.
    if (!path.empty()) {
      SHOAL_RETURN_IF_ERROR(tools::WriteFile(path, ""));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Job> ReadJob(std::vector<std::string> arguments) {
  Job job;
  SHOAL_ASSIGN_OR_RETURN(job.environment.world, TakeWorldFlags(&arguments));
  SHOAL_ASSIGN_OR_RETURN(job.flags, ParseFlags(arguments));
  job.flags.json = tools::FromCallersDirectory(job.flags.json);
  job.flags.svg = tools::FromCallersDirectory(job.flags.svg);
  job.flags.trace = tools::FromCallersDirectory(job.flags.trace);
  if (!job.flags.help && !job.flags.plot) {
    SHOAL_RETURN_IF_ERROR(CheckWorld(&job));
  }
  return job;
}

// The same command line without what starts a world: a rank joins one.
std::vector<std::string> RankArguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--world") {
      ++i;
    } else if (argument.substr(0, 8) != "--world=") {
      arguments.emplace_back(argument);
    }
  }
  return arguments;
}

absl::Status Plot(const Flags& flags) {
  std::vector<NamedResults> runs;
  for (const std::string& path : flags.operands) {
    SHOAL_ASSIGN_OR_RETURN(const std::string json,
                           tools::ReadFile(tools::FromCallersDirectory(path)));
    absl::StatusOr<Results> results = ParseResults(json);
    if (!results.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " is not what -J writes: ", results.status().message()));
    }
    // One run needs no name beside those of its series.
    runs.push_back(
        {flags.operands.size() > 1 ? path : "", *std::move(results)});
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string svg, BandwidthPlot(runs));
  return tools::WriteFile(flags.svg, svg);
}

int Explain(const Flags& flags) {
  absl::StatusOr<AlgorithmPolicy> policy = tools::PolicyFromEnvironment();
  if (!policy.ok()) return tools::UsageError(kName, policy.status());
  // As rank 0 of this machine would.
  SettleRules(flags.world > UsableCores(), &*policy);
  const absl::StatusOr<std::string> text =
      ExplainText(flags, flags.world, *policy);
  if (!text.ok()) return tools::UsageError(kName, text.status());
  std::cout << *text;
  return tools::AfterOutput(kName, 0);
}

int Main(int argc, char** argv) {
  tools::OccupyStandardDescriptors();
  absl::StatusOr<Job> job =
      ReadJob(std::vector<std::string>(argv + 1, argv + argc));
  if (!job.ok()) return tools::UsageError(kName, job.status());
  if (job->flags.help) {
    std::cout << HelpText();
    return tools::AfterOutput(kName, 0);
  }
  if (job->flags.explain) return Explain(job->flags);
  if (job->flags.plot) {
    const absl::Status status = Plot(job->flags);
    return status.ok() ? 0 : tools::UsageError(kName, status);
  }
  tools::WorldProgram program;
  program.name = kName;
  program.environment = std::move(job->environment);
  program.world_size = job->flags.world;
  program.rank_arguments = RankArguments(argc, argv);
  program.run_rank = [&job](Communicator* communicator) {
    return RunBench(communicator, job->flags, std::cout);
  };
  return tools::RunWorldProgram(std::move(program));
}

}  // namespace
}  // namespace shoal::comm_bench

int main(int argc, char** argv) { return shoal::comm_bench::Main(argc, argv); }
