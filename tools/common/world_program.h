// SPDX-License-Identifier: Apache-2.0
//
// The frame of a program that either starts a world of ranks on this machine or
// is one rank of a world that others start.
//
// Such a program reads its command line, calls `PrepareWorld`, and leaves the
// rest to `RunWorldProgram`. Its last line is a verdict (verdict.h).

#ifndef SHOAL_TOOLS_COMMON_WORLD_PROGRAM_H_
#define SHOAL_TOOLS_COMMON_WORLD_PROGRAM_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/environment.h"

namespace shoal::tools {

// Bad arguments, as opposed to a failure.
inline constexpr int kUsageExitCode = 2;

struct WorldProgram {
  std::string name;  // "ring_demo"
  EnvironmentOptions environment;
  // Ranks to start, where the program does not join a world.
  int world_size = 1;
  // argv of the ranks that it starts.
  std::vector<std::string> rank_arguments;
  // What a rank does.
  std::function<absl::Status(Communicator*)> run_rank;
};

// Where a standard stream is closed, a socket that is opened later would get
// its number, and what is printed would go to another rank. After this call
// reads find the end and writes fail, as they should.
void OccupyStandardDescriptors();

// Whether the program joins a world, or has to start one. `INVALID_ARGUMENT`,
// in one line, if the command line has `--world` as well and so asks for both,
// or if a variable that the ranks are going to read makes no sense: all of them
// would complain.
absl::StatusOr<bool> PrepareWorld(const EnvironmentOptions& environment,
                                  bool world_is_given);

// By what a world that is started here, or has its rank 0 here, chooses its
// algorithms. The error is that of a variable that makes no sense.
absl::StatusOr<AlgorithmPolicy> PolicyFromEnvironment();

// Prints a line to standard error; `kUsageExitCode`.
int UsageError(absl::string_view name, const absl::Status& status);

// `exit_code`, or 1 if what was printed to standard output has not arrived.
int AfterOutput(absl::string_view name, int exit_code);

// Is a rank, or starts and awaits all of them. Returns the exit code: 0, 1
// after a failure, 128 and the signal after an interrupt, as a shell has it.
int RunWorldProgram(WorldProgram program);

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_WORLD_PROGRAM_H_
