// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/world_program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/environment.h"
#include "shoal/comm/tcp_communicator.h"
#include "shoal/tools/common/launcher.h"
#include "shoal/tools/common/verdict.h"

namespace shoal::tools {
namespace {

// Those of the variables that do not say which rank this is.
bool IsForEveryRank(absl::string_view variable) {
  return variable != "SHOAL_RANK" && variable != "SHOAL_WORLD_SIZE" &&
         variable != "SHOAL_ADDRESS" && variable != "SHOAL_LISTEN_FD";
}

// What a rank of a world that is started here would join with.
absl::StatusOr<TcpOptions> OptionsOfLocalRank() {
  EnvironmentOptions options;
  options.world.rank = 0;
  options.world.world_size = 1;
  options.lookup = [](absl::string_view name) -> std::optional<std::string> {
    if (!IsForEveryRank(name)) return std::nullopt;
    const char* value = getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  return TcpOptionsFromEnvironment(std::move(options));
}

int Finish(absl::string_view name, const std::string& failure) {
  std::cout << VerdictLine(name, failure) << std::endl;
  return AfterOutput(name, failure.empty() ? 0 : 1);
}

int RunAsRank(WorldProgram program) {
  absl::StatusOr<std::unique_ptr<Communicator>> communicator =
      CommunicatorFromEnvironment(std::move(program.environment));
  if (absl::IsInvalidArgument(communicator.status())) {
    return UsageError(program.name, communicator.status());
  }
  if (!communicator.ok()) {
    return Finish(program.name, communicator.status().ToString());
  }
  const absl::Status status = program.run_rank(communicator->get());
  communicator->reset();
  return Finish(program.name, status.ok() ? "" : status.ToString());
}

int RunAsLauncher(const WorldProgram& program) {
  LaunchOptions options;
  options.program = program.name;
  options.world_size = program.world_size;
  options.arguments = program.rank_arguments;
  const absl::StatusOr<LaunchResult> result =
      Launch(options, std::cout, std::cerr);
  if (!result.ok()) return Finish(program.name, result.status().ToString());
  const int exit_code = Finish(program.name, result->failure);
  return result->interrupted_by == 0 ? exit_code : 128 + result->interrupted_by;
}

}  // namespace

void OccupyStandardDescriptors() {
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    if (open("/dev/null", O_RDONLY) < 0) return;
  }
}

absl::StatusOr<bool> PrepareWorld(const EnvironmentOptions& environment,
                                  bool world_is_given) {
  const bool joins = HasWorld(environment);
  if (joins && world_is_given) {
    return absl::InvalidArgumentError(
        "--world starts ranks here and does not go with --rank, --world_size, "
        "--address or their SHOAL_ variables, which join a world");
  }
  if (joins) return true;
  SHOAL_RETURN_IF_ERROR(OptionsOfLocalRank().status());
  return false;
}

absl::StatusOr<AlgorithmPolicy> PolicyFromEnvironment() {
  SHOAL_ASSIGN_OR_RETURN(const TcpOptions options, OptionsOfLocalRank());
  return options.algorithm_policy;
}

int UsageError(absl::string_view name, const absl::Status& status) {
  std::cerr << name << ": " << status.message() << std::endl;
  return kUsageExitCode;
}

int AfterOutput(absl::string_view name, int exit_code) {
  if (std::cout.flush()) return exit_code;
  std::cerr << name << ": cannot write to standard output" << std::endl;
  return 1;
}

int RunWorldProgram(WorldProgram program) {
  return HasWorld(program.environment) ? RunAsRank(std::move(program))
                                       : RunAsLauncher(program);
}

}  // namespace shoal::tools
