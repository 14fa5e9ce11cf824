// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/flags.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/tools/common/flag_reader.h"

namespace shoal::ring_demo {
namespace {

constexpr std::int64_t kMaxLayers = 10'000;
constexpr tools::FlagName kFlagNames[] = {{"--world"},
                                          {"--layers"},
                                          {"--max_bytes"},
                                          {"--json"},
                                          {"--help", "-h", false}};
constexpr std::int64_t kMinBytes = sizeof(float);
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;

absl::Status SetMaxBytes(absl::string_view value, Flags* flags) {
  const absl::StatusOr<std::int64_t> bytes = tools::ParseBytes(value);
  if (!bytes.ok() || *bytes < kMinBytes || *bytes > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_bytes takes a size from 4 to 1GiB, such as 65536 "
                     "or 64KiB, not \"",
                     value, "\""));
  }
  flags->max_bytes = *bytes / kMinBytes * kMinBytes;
  return absl::OkStatus();
}

// REQUIRES: `name` is one of kFlagNames'.
absl::Status SetFlag(absl::string_view name, absl::string_view value,
                     Flags* flags) {
  if (name == "--world") {
    SHOAL_ASSIGN_OR_RETURN(flags->world,
                           tools::ParseInteger(name, value, 1, kMaxWorld));
  } else if (name == "--layers") {
    SHOAL_ASSIGN_OR_RETURN(flags->layers,
                           tools::ParseInteger(name, value, 1, kMaxLayers));
  } else if (name == "--max_bytes") {
    SHOAL_RETURN_IF_ERROR(SetMaxBytes(value, flags));
  } else if (name == "--help") {
    flags->help = true;
  } else {
    if (value.empty()) {
      return absl::InvalidArgumentError("--json takes the name of a file");
    }
    flags->json = std::string(value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  SHOAL_ASSIGN_OR_RETURN(const tools::CommandLine command_line,
                         tools::ReadCommandLine(arguments, kFlagNames));
  SHOAL_RETURN_IF_ERROR(tools::RefuseOperands(command_line));
  Flags flags;
  for (const tools::GivenFlag& flag : command_line.flags) {
    SHOAL_RETURN_IF_ERROR(SetFlag(flag.name, flag.value, &flags));
  }
  return flags;
}

std::vector<std::string> RankArguments(const Flags& flags) {
  std::vector<std::string> arguments = {
      absl::StrCat("--layers=", flags.layers),
      absl::StrCat("--max_bytes=", flags.max_bytes)};
  if (!flags.json.empty()) {
    arguments.push_back(absl::StrCat("--json=", flags.json));
  }
  return arguments;
}

std::string HelpText() {
  return absl::StrCat(
      "ring_demo shows a world of ranks at work: who owns which layers, how "
      "fast\n"
      "all-reduce is, activations on their way through the pipeline, and "
      "tensor-parallel\n"
      "products. Everything is checked.\n"
      "\n"
      "  ring_demo [--world N]                 starts N ranks on this machine\n"
      "  ring_demo --rank R --world_size N --address HOST:PORT\n"
      "                                        is rank R of a world; ADDRESS "
      "is "
      "rank 0's\n"
      "\n"
      "  --world N         1 to ",
      kMaxWorld, "; ", kDefaultWorld,
      " if not given\n"
      "  --layers N        of the model that the pipeline stands for: 1 to ",
      kMaxLayers,
      ";\n"
      "                    32 if not given\n"
      "  --max_bytes SIZE  of the largest all-reduce: 65536, 64KiB, 16MiB; "
      "16MiB if not\n"
      "                    given\n"
      "  --json FILE       writes all figures to FILE (of rank 0)\n"
      "  --help            shows this\n"
      "\n"
      "SHOAL_RANK, SHOAL_WORLD_SIZE and SHOAL_ADDRESS may stand for the flags "
      "that join\n"
      "a world. The last line is \"ring_demo: OK\" (exit code 0) or\n"
      "\"ring_demo: FAILED: why\" (exit code 1); bad flags are exit code 2.\n");
}

}  // namespace shoal::ring_demo
