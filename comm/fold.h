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

namespace shoal::internal {

// out[i] = ((operands[0][i] op operands[1][i]) op ...) for `count` elements,
// with the arithmetic of reduce.h; `completes` adds that of `FinishReduce` for
// `world_size` ranks. f16 and bf16 are folded and divided in float, and rounded
// once, at the end. At least one operand; any alignment. `out` may be one of
// the operands, and overlaps them in no other way.
void FoldReduce(DType dtype, ReduceOp op,
                absl::Span<const char* const> operands, bool completes,
                int world_size, char* out, std::int64_t count);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FOLD_H_
