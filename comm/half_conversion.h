// SPDX-License-Identifier: Apache-2.0
//
// Arrays of f16 and bf16 as f32 and back, at the speed of memory.
//
// Element by element as the conversions of float16.h: widening is exact,
// rounding is to nearest even. Vectorised by Google Highway.
//
// Pure functions; thread-safe as far as the memory is.

#ifndef SHOAL_COMM_HALF_CONVERSION_H_
#define SHOAL_COMM_HALF_CONVERSION_H_

#include <cstdint>

#include "shoal/comm/dtype.h"

namespace shoal::internal {

// `dtype` is kF16 or kBF16; it is the type of `halves`, the other memory is
// f32. Any alignment; the two do not overlap.
void WidenHalves(DType dtype, const void* halves, void* floats,
                 std::int64_t count);
void RoundToHalves(DType dtype, const void* floats, void* halves,
                   std::int64_t count);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_HALF_CONVERSION_H_
