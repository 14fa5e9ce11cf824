// SPDX-License-Identifier: Apache-2.0
//
// The reduction of `--op user`: a sum as a user would write it, to hold what
// ReduceOp::kUser costs against what the library's own sum does.
//
// Thread-safe.

#ifndef SHOAL_TOOLS_COMM_BENCH_USER_SUM_H_
#define SHOAL_TOOLS_COMM_BENCH_USER_SUM_H_

#include "shoal/base/dialect.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/user_reduction.h"

namespace shoal::comm_bench {

// Adds elements of the type, at any alignment; integers wrap around. Lives as
// long as the program.
const UserReduction& UserSum(DType dtype);

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_USER_SUM_H_
