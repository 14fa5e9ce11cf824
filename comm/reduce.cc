// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/reduce.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

// The kernels for all of this architecture's instruction sets, the best of
// which is chosen when the first reduction runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shoal/comm/reduce_kernels.inc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "shoal/comm/reduce_kernels.inc"

namespace shoal::internal {
namespace {

HWY_EXPORT(Combine);
HWY_EXPORT(Divide);

// No vector unit divides 64-bit integers.
void DivideInt64(std::uint8_t* data, std::size_t bytes, int divisor) {
  for (std::size_t i = 0; i < bytes; i += sizeof(std::int64_t)) {
    std::int64_t value;
    std::memcpy(&value, data + i, sizeof(value));
    value /= divisor;
    std::memcpy(data + i, &value, sizeof(value));
  }
}

}  // namespace

void Reduce(DType dtype, ReduceOp op, const void* first, const void* second,
            void* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Combine)
  (dtype, op, static_cast<const std::uint8_t*>(first),
   static_cast<const std::uint8_t*>(second), static_cast<std::uint8_t*>(out),
   static_cast<std::size_t>(count) * DTypeSize(dtype));
}

void FinishReduce(DType dtype, ReduceOp op, void* data, std::int64_t count,
                  int world_size) {
  if (op != ReduceOp::kAverage) return;
  auto* const bytes = static_cast<std::uint8_t*>(data);
  const std::size_t size = static_cast<std::size_t>(count) * DTypeSize(dtype);
  if (dtype == DType::kI64) return DivideInt64(bytes, size, world_size);
  HWY_DYNAMIC_DISPATCH(Divide)(dtype, bytes, size, world_size);
}

}  // namespace shoal::internal
