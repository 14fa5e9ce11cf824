// SPDX-License-Identifier: Apache-2.0
//
// Combines the operands of several ranks at once.
//
// Pure functions; thread-safe as far as the memory is.

#ifndef SHOAL_COMM_FOLD_H_
#define SHOAL_COMM_FOLD_H_

#include <cstdint>

#include "absl/types/span.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/user_reduction.h"

namespace shoal::internal {

// What to fold, and how.
struct FoldOptions {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  // With ReduceOp::kUser only.
  const UserReduction* user_reduction = nullptr;
  // Adds what `FinishReduce` does for so many ranks.
  bool completes = false;
  int world_size = 1;
};

// out[i] = ((operands[0][i] op operands[1][i]) op ...) for `count` elements,
// with the arithmetic of reduce.h. f16 and bf16 are folded and divided in
// float, and rounded once, at the end, unless the reduction is the user's. At
// least one operand; any alignment. `out` may be one of the operands, and
// overlaps them in no other way.
void FoldReduce(const FoldOptions& options,
                absl::Span<const char* const> operands, char* out,
                std::int64_t count);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FOLD_H_
