// SPDX-License-Identifier: Apache-2.0
//
// The command line of comm_bench: that of nccl-tests, and what Shoal adds.

#ifndef SHOAL_TOOLS_COMM_BENCH_FLAGS_H_
#define SHOAL_TOOLS_COMM_BENCH_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tools/comm_bench/collectives.h"

namespace shoal::comm_bench {

// Which halves of the table to fill.
enum class Halves { kBoth, kOutOfPlace, kInPlace };

struct Flags {
  // Ranks to start on this machine. 0: not given.
  int world = 0;
  std::vector<const Collective*> collectives;

  // The sizes: from min_bytes to max_bytes, times step_factor, or plus
  // step_bytes if that is 1.
  std::int64_t min_bytes = 32 << 20;
  std::int64_t max_bytes = 32 << 20;
  std::int64_t step_bytes = 1 << 20;
  std::int64_t step_factor = 1;

  std::int64_t iterations = 20;  // 0: as many as fit into a quarter second
  std::int64_t warmups = 5;
  std::int64_t checks = 1;
  // What ReductionTakes refuses is left out.
  std::vector<DType> dtypes = {DType::kF32};
  std::vector<ReduceOp> ops = {ReduceOp::kSum};
  int root = 0;
  bool unaligned = false;
  Algorithm algorithm = Algorithm::kAuto;
  WireFormat wire = WireFormat::kAsData;
  Halves halves = Halves::kBoth;

  std::string json;   // empty: none
  std::string svg;    // empty: none
  std::string trace;  // empty: none
  bool explain = false;
  // Draws the runs in `operands` instead of measuring.
  bool plot = false;
  std::vector<std::string> operands;
  bool help = false;
};

inline constexpr int kDefaultWorld = 4;
inline constexpr int kMaxWorld = 64;

// Reads what stands after the program's name, without the flags that
// environment.h takes.
// `INVALID_ARGUMENT`, in one line that names the flag, its value and what it
// may be.
absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments);

// From min_bytes to max_bytes.
std::vector<std::int64_t> SweepSizes(const Flags& flags);

// What --help prints.
std::string HelpText();

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_FLAGS_H_
