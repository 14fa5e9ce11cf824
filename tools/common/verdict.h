// SPDX-License-Identifier: Apache-2.0
//
// The last line of a program that runs a world: "ring_demo: OK" or
// "ring_demo: FAILED: why".
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_COMMON_VERDICT_H_
#define SHOAL_TOOLS_COMMON_VERDICT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal::tools {

// `failure` says why; empty: all is well. One line without its line feed,
// whatever `failure` holds.
std::string VerdictLine(absl::string_view program, absl::string_view failure);

// The failure of a verdict line of this program; nothing for any other line.
std::optional<std::string> ReadVerdict(absl::string_view program,
                                       absl::string_view line);

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_VERDICT_H_
