// SPDX-License-Identifier: Apache-2.0
//
// The data that benchmarks send, and what has to come of it.
//
// Every rank's elements differ from those of the others and from one another,
// and are so small that each reduction of them is exact in its type, in
// whatever order it is made: an element is right or wrong, and no tolerance
// hides anything. The elements repeat with a prime period, which no algorithm
// cuts at.
//
// Only where elements travel in a form that rounds them there is a tolerance
// for those of the reduction: as much as the roundings that
// docs/architecture.md states can come to.
//
// Threads: const methods are thread-safe.

#ifndef SHOAL_TOOLS_COMM_BENCH_PATTERN_H_
#define SHOAL_TOOLS_COMM_BENCH_PATTERN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/dialect.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal::comm_bench {

// Whose elements: those of a rank, or of the reduction of all ranks'.
inline constexpr int kReduced = -1;

class Pattern {
 public:
  static constexpr std::int64_t kPeriod = 4099;

  // What ranks send where `op` reduces it. REQUIRES: the reduction takes the
  // type, the wire format takes it too, and the world has no more than 64
  // ranks. kUser is that of user_sum.h.
  Pattern(DType dtype, ReduceOp op, int world_size,
          WireFormat wire = WireFormat::kAsData);

  // Writes `count` elements, the first of which is element `first` of `whose`,
  // a rank or kReduced, to `data`, which may have any alignment.
  void Fill(int whose, std::int64_t first, std::int64_t count,
            void* data) const;

  // How many of `count` elements at `data` are not those; of the reduction also
  // not within the wire format's tolerance.
  std::int64_t CountWrong(int whose, std::int64_t first, std::int64_t count,
                          const void* data) const;

 private:
  // Bytes of one period.
  using Period = std::string;

  const Period& PeriodOf(int whose) const;
  // Whether `actual` passes for `expected`, elements of the reduction.
  bool IsWithinTolerance(const char* expected, const char* actual) const;

  std::int64_t element_bytes_;
  std::vector<Period> ranks_;
  Period reduced_;
  // Of an element of the reduction, absolute and relative to it.
  double tolerance_ = 0;
  double relative_tolerance_ = 0;
};

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_PATTERN_H_
