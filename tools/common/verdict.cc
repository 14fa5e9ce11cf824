// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/verdict.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace shoal::tools {
namespace {

constexpr absl::string_view kOk = ": OK";
constexpr absl::string_view kFailed = ": FAILED: ";

}  // namespace

std::string VerdictLine(absl::string_view program, absl::string_view failure) {
  if (failure.empty()) return absl::StrCat(program, kOk);
  return absl::StrCat(program, kFailed,
                      absl::StrReplaceAll(failure, {{"\n", " "}, {"\r", " "}}));
}

std::optional<std::string> ReadVerdict(absl::string_view program,
                                       absl::string_view line) {
  if (!absl::ConsumePrefix(&line, program)) return std::nullopt;
  if (line == kOk) return std::string();
  if (absl::ConsumePrefix(&line, kFailed)) return std::string(line);
  return std::nullopt;
}

}  // namespace shoal::tools
