// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/user_sum.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/user_reduction.h"

namespace shoal::comm_bench {
namespace {

template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) +
                          static_cast<std::uint64_t>(b));
  } else if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return T(static_cast<float>(a) + static_cast<float>(b));
  }
}

template <typename T>
const UserReduction& SumOf() {
  static const auto& sum = *new UserReduction(
      [](const void* first, const void* second, void* out, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          T a;
          T b;
          std::memcpy(&a, static_cast<const char*>(first) + i * sizeof a,
                      sizeof a);
          std::memcpy(&b, static_cast<const char*>(second) + i * sizeof b,
                      sizeof b);
          const T both = Sum(a, b);
          std::memcpy(static_cast<char*>(out) + i * sizeof both, &both,
                      sizeof both);
        }
      });
  return sum;
}

}  // namespace

const UserReduction& UserSum(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return SumOf<double>();
    case DType::kF16:
      return SumOf<Float16>();
    case DType::kBF16:
      return SumOf<BFloat16>();
    case DType::kI8:
      return SumOf<std::int8_t>();
    case DType::kU8:
      return SumOf<std::uint8_t>();
    case DType::kI32:
      return SumOf<std::int32_t>();
    case DType::kI64:
      return SumOf<std::int64_t>();
    case DType::kF32:
      break;
  }
  return SumOf<float>();
}

}  // namespace shoal::comm_bench
