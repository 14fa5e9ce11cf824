// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm each size gets.
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_COMM_BENCH_EXPLAIN_H_
#define SHOAL_TOOLS_COMM_BENCH_EXPLAIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/tools/comm_bench/flags.h"

namespace shoal::comm_bench {

// A table for every collective, element type and reduction of `flags`, with a
// line for every size and the algorithm that a world of this size chooses when
// all ranks follow `policy`. The error is that of ChooseAlgorithm.
absl::StatusOr<std::string> ExplainText(const Flags& flags, int world_size,
                                        const AlgorithmPolicy& policy);

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_EXPLAIN_H_
