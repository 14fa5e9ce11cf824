// SPDX-License-Identifier: Apache-2.0
//
// A picture of bus bandwidth over size.
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_COMM_BENCH_BANDWIDTH_PLOT_H_
#define SHOAL_TOOLS_COMM_BENCH_BANDWIDTH_PLOT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/tools/comm_bench/results.h"

namespace shoal::comm_bench {

struct NamedResults {
  std::string name;  // stands before each line's name; may be empty
  Results results;
};

// A document in SVG 1.1 with logarithmic axes: a curve for every half of every
// series, out of place dashed. `INVALID_ARGUMENT` if no row has a bandwidth,
// as for one rank.
absl::StatusOr<std::string> BandwidthPlot(
    const std::vector<NamedResults>& runs);

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_BANDWIDTH_PLOT_H_
