// SPDX-License-Identifier: Apache-2.0
//
// A world of ranks at work; HelpText() in flags.cc says how to call it.

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/environment.h"
#include "shoal/tools/common/files.h"
#include "shoal/tools/common/world_program.h"
#include "shoal/tools/ring_demo/flags.h"
#include "shoal/tools/ring_demo/run_rank.h"

namespace shoal::ring_demo {
namespace {

constexpr char kName[] = "ring_demo";

// What the command line and the environment ask for.
struct Job {
  Flags flags;
  EnvironmentOptions environment;
};

absl::StatusOr<Job> ReadJob(std::vector<std::string> arguments) {
  Job job;
  SHOAL_ASSIGN_OR_RETURN(job.environment.world, TakeWorldFlags(&arguments));
  SHOAL_ASSIGN_OR_RETURN(job.flags, ParseFlags(arguments));
  job.flags.json = tools::FromCallersDirectory(job.flags.json);
  if (job.flags.help) return job;
  SHOAL_ASSIGN_OR_RETURN(
      const bool joins,
      tools::PrepareWorld(job.environment, job.flags.world != 0));
  if (job.flags.world == 0) job.flags.world = kDefaultWorld;
  if (!joins && !job.flags.json.empty()) {
    // Now rather than after a long run.
    SHOAL_RETURN_IF_ERROR(tools::WriteFile(job.flags.json, ""));
  }
  return job;
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
  tools::WorldProgram program;
  program.name = kName;
  program.environment = std::move(job->environment);
  program.world_size = job->flags.world;
  program.rank_arguments = RankArguments(job->flags);
  program.rank_arguments.insert(program.rank_arguments.begin(), argv[0]);
  program.run_rank = [&job](Communicator* communicator) {
    return RunRank(communicator, job->flags, std::cout);
  };
  return tools::RunWorldProgram(std::move(program));
}

}  // namespace
}  // namespace shoal::ring_demo

int main(int argc, char** argv) { return shoal::ring_demo::Main(argc, argv); }
