// SPDX-License-Identifier: Apache-2.0
//
// 64-bit sums and products that say when they do not fit, for sizes that come
// from a user or a file. Pure; any thread may call them.
#ifndef SHOAL_PARTITION_CHECKED_MATH_H_
#define SHOAL_PARTITION_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

#include "shoal/base/dialect.h"

namespace shoal::internal {

// a + b, or no value where that is not an int64_t.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// a * b, or no value where that is not an int64_t.
inline std::optional<int64_t> CheckedMultiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace shoal::internal

#endif  // SHOAL_PARTITION_CHECKED_MATH_H_
