// SPDX-License-Identifier: Apache-2.0
//
// The last line of the demonstration: "ring_demo: OK" or
// "ring_demo: FAILED: why".
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_RING_DEMO_VERDICT_H_
#define SHOAL_TOOLS_RING_DEMO_VERDICT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal::ring_demo {

// `failure` says why; empty: all is well. One line without its line feed,
// whatever `failure` holds.
std::string VerdictLine(absl::string_view failure);

// The failure of a verdict line; nothing for any other line.
std::optional<std::string> ReadVerdict(absl::string_view line);

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_VERDICT_H_
