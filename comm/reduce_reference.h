// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reduce.h in plain C++, one element after the other.
//
// It runs where Highway has no vectors for the machine, and is what tests hold
// the kernels against: both give the same bits.
//
// Pure functions; thread-safe as far as the memory is.

#ifndef SHOAL_COMM_REDUCE_REFERENCE_H_
#define SHOAL_COMM_REDUCE_REFERENCE_H_

#include <cstdint>

#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::internal {

// As `Reduce`.
void ReferenceReduce(DType dtype, ReduceOp op, const void* first,
                     const void* second, void* out, std::int64_t count);

// As `FinishReduce`.
void ReferenceFinishReduce(DType dtype, ReduceOp op, void* data,
                           std::int64_t count, int world_size);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_REDUCE_REFERENCE_H_
