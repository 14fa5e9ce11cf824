// SPDX-License-Identifier: Apache-2.0
//
// Splits a command line into flags and their values.
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_COMMON_FLAG_READER_H_
#define SHOAL_TOOLS_COMMON_FLAG_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"

namespace shoal::tools {

// A flag that a program has.
struct FlagName {
  absl::string_view name;             // "--minbytes"
  absl::string_view short_name = "";  // "-b"; empty: none
  bool has_value = true;
};

// A flag as it was given.
struct GivenFlag {
  absl::string_view name;  // FlagName::name, whichever was written
  std::string value;       // empty for a flag without one
};

struct CommandLine {
  std::vector<GivenFlag> flags;  // in the order in which they stand
  std::vector<std::string> operands;
};

// Reads what stands after the program's name. "--name value", "--name=value",
// "-n value" and "-nvalue" are the same. What does not start with a dash, or
// stands after "--", is an operand.
// `INVALID_ARGUMENT`, in one line that names the flag: there is none of that
// name, it is given twice, lacks its value, or has one and takes none.
absl::StatusOr<CommandLine> ReadCommandLine(
    const std::vector<std::string>& arguments,
    absl::Span<const FlagName> names);

// `INVALID_ARGUMENT` that names the first operand, if there is one.
absl::Status RefuseOperands(const CommandLine& command_line);

// The value of `flag` as a number. `INVALID_ARGUMENT` names all four.
absl::StatusOr<std::int64_t> ParseInteger(absl::string_view flag,
                                          absl::string_view value,
                                          std::int64_t min, std::int64_t max);

// A count of bytes: "65536", "64KiB", "64K", "16MiB", "1G". `INVALID_ARGUMENT`
// for anything else, or more than an int64 holds.
absl::StatusOr<std::int64_t> ParseBytes(absl::string_view text);

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_FLAG_READER_H_
