// SPDX-License-Identifier: Apache-2.0
//
// A world of ranks at work; HelpText() in flags.cc says how to call it.

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/environment.h"
#include "shoal/tools/ring_demo/flags.h"
#include "shoal/tools/ring_demo/launcher.h"
#include "shoal/tools/ring_demo/report.h"
#include "shoal/tools/ring_demo/run_rank.h"
#include "shoal/tools/ring_demo/verdict.h"

namespace shoal::ring_demo {
namespace {

// What the command line and the environment ask for.
struct Job {
  Flags flags;
  EnvironmentOptions environment;
  bool joins = false;  // a world that is there, instead of starting one
};

// `bazel run` changes the directory and says where it was called.
std::string FromCallersDirectory(const std::string& path) {
  const char* directory = getenv("BUILD_WORKING_DIRECTORY");
  if (directory == nullptr || path.empty() || path[0] == '/') return path;
  return absl::StrCat(directory, "/", path);
}

// What every rank is going to read of this process's environment, as all would
// complain otherwise.
absl::Status CheckTimeouts() {
  EnvironmentOptions options;
  options.world.rank = 0;
  options.world.world_size = 1;
  options.lookup = [](absl::string_view name) -> std::optional<std::string> {
    if (!absl::EndsWith(name, "TIMEOUT")) return std::nullopt;
    const char* value = getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  return TcpOptionsFromEnvironment(std::move(options)).status();
}

absl::StatusOr<Job> ReadJob(std::vector<std::string> arguments) {
  Job job;
  SHOAL_ASSIGN_OR_RETURN(job.environment.world, TakeWorldFlags(&arguments));
  SHOAL_ASSIGN_OR_RETURN(job.flags, ParseFlags(arguments));
  job.flags.json = FromCallersDirectory(job.flags.json);
  job.joins = HasWorld(job.environment);
  if (job.joins && job.flags.world != 0) {
    return absl::InvalidArgumentError(
        "--world starts ranks here and does not go with --rank, --world_size, "
        "--address or their SHOAL_ variables, which join a world");
  }
  if (job.flags.world == 0) job.flags.world = kDefaultWorld;
  if (!job.flags.help && !job.joins) {
    SHOAL_RETURN_IF_ERROR(CheckTimeouts());
  }
  if (!job.flags.help && !job.joins && !job.flags.json.empty()) {
    // Now rather than after a long run.
    SHOAL_RETURN_IF_ERROR(WriteFile(job.flags.json, ""));
  }
  return job;
}

// `exit_code`, if all that was printed has arrived.
int AfterOutput(int exit_code) {
  if (std::cout.flush()) return exit_code;
  std::cerr << "ring_demo: cannot write to standard output" << std::endl;
  return 1;
}

int Finish(const std::string& failure) {
  std::cout << VerdictLine(failure) << std::endl;
  return AfterOutput(failure.empty() ? 0 : 1);
}

int RunAsRank(Job job) {
  absl::StatusOr<std::unique_ptr<Communicator>> communicator =
      CommunicatorFromEnvironment(std::move(job.environment));
  if (absl::IsInvalidArgument(communicator.status())) {
    std::cerr << "ring_demo: " << communicator.status().message() << std::endl;
    return 2;
  }
  if (!communicator.ok()) return Finish(communicator.status().ToString());
  const absl::Status status =
      RunRank(communicator->get(), job.flags, std::cout);
  communicator->reset();
  return Finish(status.ok() ? "" : status.ToString());
}

int RunAsLauncher(const std::string& program_name, const Job& job) {
  const absl::StatusOr<LaunchResult> result =
      Launch(program_name, job.flags, std::cout, std::cerr);
  if (!result.ok()) return Finish(result.status().ToString());
  const int exit_code = Finish(result->failure);
  // As a shell reports a program that the signal killed.
  return result->interrupted_by == 0 ? exit_code : 128 + result->interrupted_by;
}

// Where a standard stream is closed, a socket that is opened later would get
// its number, and what is printed would go to another rank. Reads find the end
// and writes fail, as they should.
void OccupyStandardDescriptors() {
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    if (open("/dev/null", O_RDONLY) < 0) return;
  }
}

int Main(int argc, char** argv) {
  OccupyStandardDescriptors();
  absl::StatusOr<Job> job =
      ReadJob(std::vector<std::string>(argv + 1, argv + argc));
  if (!job.ok()) {
    std::cerr << "ring_demo: " << job.status().message() << std::endl;
    return 2;
  }
  if (job->flags.help) {
    std::cout << HelpText();
    return AfterOutput(0);
  }
  return job->joins ? RunAsRank(*std::move(job)) : RunAsLauncher(argv[0], *job);
}

}  // namespace
}  // namespace shoal::ring_demo

int main(int argc, char** argv) { return shoal::ring_demo::Main(argc, argv); }
