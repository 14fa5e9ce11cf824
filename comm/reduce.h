// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions: combines two buffers element by element.
//
// What an element becomes depends on its two operands only, not on its place in
// the buffer, the buffer's alignment, or how a vector is cut into calls: ranks
// that cut it differently compute the same bits. In full:
//
//   f32, f64      IEEE 754, one rounding.
//   f16, bf16     The operation is done in float and rounded once, to nearest
//                 even.
//   integers      Two's complement; they wrap around.
//   min, max      -0 is less than +0.
//   NaN           Of two NaNs the first operand's is the result, of one NaN and
//                 a number the NaN; it is made quiet and keeps its sign and
//                 payload. The NaN that comes of numbers (infinity minus
//                 infinity) has the bits that the machine gives it.
//   and, or, xor  Bit by bit, whatever the type.
//   average       Adds like sum; `FinishReduce` divides.
//
// Vectorised by Google Highway for the best instruction set of the machine that
// it runs on; reduce_reference.h is the same arithmetic in plain C++.
//
// Pure functions; thread-safe as far as the memory is.

#ifndef SHOAL_COMM_REDUCE_H_
#define SHOAL_COMM_REDUCE_H_

#include <cstdint>

#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::internal {

// out[i] = first[i] op second[i] for `count` elements. Any alignment. `out` may
// be `first`, `second`, or both, and overlaps them in no other way. `dtype` and
// `op` must be valid, and `op` not kUser.
void Reduce(DType dtype, ReduceOp op, const void* first, const void* second,
            void* out, std::int64_t count);

// The last part of a reduction, done once where every rank's contribution is
// in: for average data[i] = data[i] / world_size, otherwise nothing. Integers
// are divided with truncation toward zero, f16 and bf16 in float and rounded
// once more. Any alignment; `world_size` is at least 1.
void FinishReduce(DType dtype, ReduceOp op, void* data, std::int64_t count,
                  int world_size);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_REDUCE_H_
