// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/reduce_reference.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::internal {
namespace {

// How elements lie in memory and in which type they are computed.
template <typename StoredT, typename ComputedT = StoredT>
struct Plain {
  using Stored = StoredT;
  using Computed = ComputedT;
  static Computed Load(Stored value) { return static_cast<Computed>(value); }
  static Stored Store(Computed value) { return static_cast<Stored>(value); }
};

template <typename Float>
struct Half {
  using Stored = Float;
  using Computed = float;
  static float Load(Float value) { return static_cast<float>(value); }
  static Float Store(float value) { return Float(value); }
};

template <typename T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

// Of two NaNs the first one is to survive, whatever the machine and the
// compiler do.
template <typename T>
T SecondUnlessFirstIsNan(T first, T second) {
  return first != first ? first : second;
}

// Unsigned arithmetic wraps; the conversion back is defined in C++20.
template <typename T>
T Sum(T first, T second) {
  if constexpr (kIsFloat<T>) {
    return first + SecondUnlessFirstIsNan(first, second);
  } else {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(first) + static_cast<U>(second));
  }
}

template <typename T>
T Product(T first, T second) {
  if constexpr (kIsFloat<T>) {
    return first * SecondUnlessFirstIsNan(first, second);
  } else {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(first) * static_cast<U>(second));
  }
}

template <typename T>
T Quieted(T nan) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<T>(std::bit_cast<Bits>(nan) |
                          (Bits{1} << (sizeof(T) == 4 ? 22 : 51)));
}

template <typename T>
bool IsNegative(T value) {
  using Signed = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  return std::bit_cast<Signed>(value) < 0;
}

template <typename T>
T Min(T first, T second) {
  if constexpr (kIsFloat<T>) {
    if (first != first) return Quieted(first);
    if (second != second) return Quieted(second);
    // Equal numbers differ in the sign of zero at most.
    if (first == second) return IsNegative(first) ? first : second;
  }
  return first < second ? first : second;
}

template <typename T>
T Max(T first, T second) {
  if constexpr (kIsFloat<T>) {
    if (first != first) return Quieted(first);
    if (second != second) return Quieted(second);
    if (first == second) return IsNegative(first) ? second : first;
  }
  return first < second ? second : first;
}

// Of the elements as they lie in memory.
template <typename T>
T CombineBits(ReduceOp op, T first, T second) {
  unsigned char a[sizeof(T)], b[sizeof(T)];
  std::memcpy(a, &first, sizeof(T));
  std::memcpy(b, &second, sizeof(T));
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    a[i] = op == ReduceOp::kAnd  ? a[i] & b[i]
           : op == ReduceOp::kOr ? a[i] | b[i]
                                 : a[i] ^ b[i];
  }
  std::memcpy(&first, a, sizeof(T));
  return first;
}

bool IsOfBits(ReduceOp op) {
  return op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
}

template <typename T>
T Combine(ReduceOp op, T first, T second) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return Sum(first, second);
    case ReduceOp::kProduct:
      return Product(first, second);
    case ReduceOp::kMin:
      return Min(first, second);
    case ReduceOp::kMax:
      return Max(first, second);
    case ReduceOp::kAnd:
    case ReduceOp::kOr:
    case ReduceOp::kXor:
    case ReduceOp::kUser:
      break;  // CombineBits, or the user's own
  }
  return first;
}

template <typename Type>
void ReduceAs(ReduceOp op, const void* first, const void* second, void* out,
              std::int64_t count) {
  using Stored = typename Type::Stored;
  const auto* const a = static_cast<const char*>(first);
  const auto* const b = static_cast<const char*>(second);
  auto* const c = static_cast<char*>(out);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * sizeof(Stored);
    Stored x, y;
    std::memcpy(&x, a + at, sizeof(Stored));
    std::memcpy(&y, b + at, sizeof(Stored));
    const Stored result =
        IsOfBits(op) ? CombineBits(op, x, y)
                     : Type::Store(Combine(op, Type::Load(x), Type::Load(y)));
    std::memcpy(c + at, &result, sizeof(Stored));
  }
}

template <typename Type>
void DivideAs(void* data, std::int64_t count, int divisor) {
  using Stored = typename Type::Stored;
  auto* const bytes = static_cast<char*>(data);
  for (std::int64_t i = 0; i < count; ++i) {
    char* const at = bytes + static_cast<std::size_t>(i) * sizeof(Stored);
    Stored value;
    std::memcpy(&value, at, sizeof(Stored));
    value = Type::Store(Type::Load(value) /
                        static_cast<typename Type::Computed>(divisor));
    std::memcpy(at, &value, sizeof(Stored));
  }
}

}  // namespace

void ReferenceReduce(DType dtype, ReduceOp op, const void* first,
                     const void* second, void* out, std::int64_t count) {
  switch (dtype) {
    case DType::kF32:
      return ReduceAs<Plain<float>>(op, first, second, out, count);
    case DType::kF64:
      return ReduceAs<Plain<double>>(op, first, second, out, count);
    case DType::kF16:
      return ReduceAs<Half<Float16>>(op, first, second, out, count);
    case DType::kBF16:
      return ReduceAs<Half<BFloat16>>(op, first, second, out, count);
    case DType::kI8:
      return ReduceAs<Plain<std::int8_t>>(op, first, second, out, count);
    case DType::kU8:
      return ReduceAs<Plain<std::uint8_t>>(op, first, second, out, count);
    case DType::kI32:
      return ReduceAs<Plain<std::int32_t>>(op, first, second, out, count);
    case DType::kI64:
      return ReduceAs<Plain<std::int64_t>>(op, first, second, out, count);
  }
}

void ReferenceFinishReduce(DType dtype, ReduceOp op, void* data,
                           std::int64_t count, int world_size) {
  if (op != ReduceOp::kAverage) return;
  switch (dtype) {
    case DType::kF32:
      return DivideAs<Plain<float>>(data, count, world_size);
    case DType::kF64:
      return DivideAs<Plain<double>>(data, count, world_size);
    case DType::kF16:
      return DivideAs<Half<Float16>>(data, count, world_size);
    case DType::kBF16:
      return DivideAs<Half<BFloat16>>(data, count, world_size);
    // A world size does not fit 8 bits.
    case DType::kI8:
      return DivideAs<Plain<std::int8_t, std::int32_t>>(data, count,
                                                        world_size);
    case DType::kU8:
      return DivideAs<Plain<std::uint8_t, std::int32_t>>(data, count,
                                                         world_size);
    case DType::kI32:
      return DivideAs<Plain<std::int32_t>>(data, count, world_size);
    case DType::kI64:
      return DivideAs<Plain<std::int64_t>>(data, count, world_size);
  }
}

}  // namespace shoal::internal
