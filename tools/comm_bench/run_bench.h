// SPDX-License-Identifier: Apache-2.0
//
// What one rank of the benchmark does.

#ifndef SHOAL_TOOLS_COMM_BENCH_RUN_BENCH_H_
#define SHOAL_TOOLS_COMM_BENCH_RUN_BENCH_H_

#include <ostream>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/communicator.h"
#include "shoal/tools/comm_bench/flags.h"

namespace shoal::comm_bench {

// Measures all that `flags` ask for. Rank 0 prints the table as it comes and
// writes the files. Errors: `DATA_LOSS` where elements are wrong (the run goes
// on to its end), those of the communicator and of the files, and
// `RESOURCE_EXHAUSTED` where memory is.
absl::Status RunBench(Communicator* communicator, const Flags& flags,
                      std::ostream& out);

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_RUN_BENCH_H_
