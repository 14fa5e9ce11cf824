// SPDX-License-Identifier: Apache-2.0
//
// Times and checks one collective at one size.

#ifndef SHOAL_TOOLS_COMM_BENCH_MEASURE_H_
#define SHOAL_TOOLS_COMM_BENCH_MEASURE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tools/comm_bench/collectives.h"
#include "shoal/tools/comm_bench/flags.h"
#include "shoal/tools/comm_bench/pattern.h"
#include "shoal/tools/comm_bench/results.h"

namespace shoal::comm_bench {

struct MeasureOptions {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  Algorithm algorithm = Algorithm::kAuto;
  WireFormat wire = WireFormat::kAsData;
  // As in flags.h.
  std::int64_t iterations = 20;
  std::int64_t warmups = 5;
  std::int64_t checks = 1;
  bool unaligned = false;
  Halves halves = Halves::kBoth;
};

// Collective: every rank calls it alike and gets the same row. `bytes` is
// rounded down to what the ranks can share. `pattern` is for the type, the
// reduction and the wire format of `options` and the world of the communicator,
// whose errors it returns. Throws std::bad_alloc where there is no memory for
// two buffers of that size. REQUIRES: the collective can run in this world.
absl::StatusOr<Row> Measure(Communicator* communicator,
                            const Collective& collective, std::int64_t bytes,
                            const MeasureOptions& options,
                            const Pattern& pattern);

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_MEASURE_H_
