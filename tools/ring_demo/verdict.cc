// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/verdict.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace shoal::ring_demo {
namespace {

constexpr absl::string_view kOk = "ring_demo: OK";
constexpr absl::string_view kFailed = "ring_demo: FAILED: ";

}  // namespace

std::string VerdictLine(absl::string_view failure) {
  if (failure.empty()) return std::string(kOk);
  return absl::StrCat(kFailed,
                      absl::StrReplaceAll(failure, {{"\n", " "}, {"\r", " "}}));
}

std::optional<std::string> ReadVerdict(absl::string_view line) {
  if (line == kOk) return std::string();
  if (absl::ConsumePrefix(&line, kFailed)) return std::string(line);
  return std::nullopt;
}

}  // namespace shoal::ring_demo
