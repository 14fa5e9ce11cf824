// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/flag_reader.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"

namespace shoal::tools {
namespace {

// A flag as it is written, with the value if that is part of it.
struct WrittenFlag {
  absl::string_view name;
  std::optional<absl::string_view> value;
};

WrittenFlag SplitFlag(absl::string_view argument) {
  if (absl::StartsWith(argument, "--")) {
    const std::size_t equals = argument.find('=');
    if (equals == absl::string_view::npos) return {argument, std::nullopt};
    return {argument.substr(0, equals), argument.substr(equals + 1)};
  }
  if (argument.size() == 2) return {argument, std::nullopt};
  return {argument.substr(0, 2), argument.substr(2)};
}

absl::StatusOr<FlagName> FindFlag(absl::string_view argument,
                                  absl::string_view written,
                                  absl::Span<const FlagName> names) {
  for (const FlagName& name : names) {
    if (name.name == written || name.short_name == written) return name;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no flag ",
                   absl::StartsWith(argument, "--") ? written : argument,
                   "; --help lists those that there are"));
}

}  // namespace

absl::StatusOr<CommandLine> ReadCommandLine(
    const std::vector<std::string>& arguments,
    absl::Span<const FlagName> names) {
  CommandLine result;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (argument == "--") {
      result.operands.insert(result.operands.end(), arguments.begin() + i + 1,
                             arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      result.operands.emplace_back(argument);
      continue;
    }
    WrittenFlag written = SplitFlag(argument);
    SHOAL_ASSIGN_OR_RETURN(const FlagName name,
                           FindFlag(argument, written.name, names));
    if (absl::c_any_of(result.flags, [&name](const GivenFlag& given) {
          return given.name == name.name;
        })) {
      return absl::InvalidArgumentError(
          absl::StrCat(written.name, " is given twice"));
    }
    if (!name.has_value && written.value.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(written.name, " takes no value"));
    }
    if (name.has_value && !written.value.has_value()) {
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(written.name, " needs a value"));
      }
      written.value = arguments[++i];
    }
    result.flags.push_back(
        {name.name, std::string(written.value.value_or(""))});
  }
  return result;
}

absl::Status RefuseOperands(const CommandLine& command_line) {
  if (command_line.operands.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", command_line.operands.front(),
                   "\" is not a flag; --help lists those that there are"));
}

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

}  // namespace shoal::tools
