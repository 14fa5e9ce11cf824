// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/flags.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "shoal/base/status_macros.h"

namespace shoal::ring_demo {
namespace {

constexpr std::int64_t kMaxLayers = 10'000;
// Those with a value.
constexpr absl::string_view kFlagNames[] = {"--world", "--layers",
                                            "--max_bytes", "--json"};
constexpr std::int64_t kMinBytes = sizeof(float);
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;

absl::StatusOr<std::int64_t> ParseInteger(absl::string_view flag,
                                          absl::string_view value,
                                          std::int64_t min, std::int64_t max) {
  std::int64_t result;
  if (!absl::SimpleAtoi(value, &result) || result < min || result > max) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " takes a number from ", min, " to ", max,
                     ", not \"", value, "\""));
  }
  return result;
}

absl::Status SetMaxBytes(absl::string_view value, Flags* flags) {
  const absl::StatusOr<std::int64_t> bytes = ParseBytes(value);
  if (!bytes.ok() || *bytes < kMinBytes || *bytes > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_bytes takes a size from 4 to 1GiB, such as 65536 "
                     "or 64KiB, not \"",
                     value, "\""));
  }
  flags->max_bytes = *bytes / kMinBytes * kMinBytes;
  return absl::OkStatus();
}

// REQUIRES: `name` is one of kFlagNames.
absl::Status SetFlag(absl::string_view name, absl::string_view value,
                     Flags* flags) {
  if (name == "--world") {
    SHOAL_ASSIGN_OR_RETURN(flags->world,
                           ParseInteger(name, value, 1, kMaxWorld));
  } else if (name == "--layers") {
    SHOAL_ASSIGN_OR_RETURN(flags->layers,
                           ParseInteger(name, value, 1, kMaxLayers));
  } else if (name == "--max_bytes") {
    SHOAL_RETURN_IF_ERROR(SetMaxBytes(value, flags));
  } else {
    if (value.empty()) {
      return absl::InvalidArgumentError("--json takes the name of a file");
    }
    flags->json = std::string(value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::int64_t> ParseBytes(absl::string_view text) {
  constexpr struct {
    char letter;
    std::int64_t bytes;
  } kUnits[] = {{'K', std::int64_t{1} << 10},
                {'M', std::int64_t{1} << 20},
                {'G', std::int64_t{1} << 30}};
  absl::string_view digits = text;
  const bool needs_unit = absl::ConsumeSuffix(&digits, "iB");
  std::int64_t unit = 1;
  for (const auto& [letter, bytes] : kUnits) {
    if (digits.empty() || absl::ascii_toupper(digits.back()) != letter)
      continue;
    unit = bytes;
    digits.remove_suffix(1);
    break;
  }
  std::int64_t count;
  if ((needs_unit && unit == 1) || !absl::SimpleAtoi(digits, &count) ||
      count < 0 || count > std::numeric_limits<std::int64_t>::max() / unit) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a size"));
  }
  return count * unit;
}

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  Flags flags;
  std::vector<absl::string_view> given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      flags.help = true;
      continue;
    }
    if (argument.substr(0, 2) != "--") {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", argument,
                       "\" is not a flag; --help lists those that there "
                       "are"));
    }
    const std::size_t equals = argument.find('=');
    const absl::string_view name = argument.substr(0, equals);
    if (!absl::c_linear_search(kFlagNames, name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there is no flag ", name, "; --help lists those that there are"));
    }
    if (absl::c_linear_search(given, name)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is given twice"));
    }
    given.push_back(name);
    if (equals != absl::string_view::npos) {
      SHOAL_RETURN_IF_ERROR(SetFlag(name, argument.substr(equals + 1), &flags));
    } else if (i + 1 < arguments.size()) {
      SHOAL_RETURN_IF_ERROR(SetFlag(name, arguments[++i], &flags));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
    }
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
