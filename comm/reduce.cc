// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/reduce.h"

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
template <typename StoredT, typename ComputedT>
struct Plain {
  using Stored = StoredT;
  using Computed = ComputedT;
  static Computed Load(Stored value) { return static_cast<Computed>(value); }
  static Stored Store(Computed value) { return static_cast<Stored>(value); }
};

template <typename Float>
struct Half {
  using Stored = std::uint16_t;
  using Computed = float;
  static float Load(std::uint16_t bits) {
    return static_cast<float>(Float::FromBits(bits));
  }
  static std::uint16_t Store(float value) { return Float(value).bits; }
};

using F32 = Plain<float, float>;
using F64 = Plain<double, double>;
using F16 = Half<Float16>;
using BF16 = Half<BFloat16>;
using I8 = Plain<std::int8_t, std::int8_t>;
using U8 = Plain<std::uint8_t, std::uint8_t>;
using I32 = Plain<std::int32_t, std::int32_t>;
using I64 = Plain<std::int64_t, std::int64_t>;
// A world size does not fit 8 bits.
using I8InDivision = Plain<std::int8_t, std::int32_t>;
using U8InDivision = Plain<std::uint8_t, std::int32_t>;

// Unsigned arithmetic wraps; the conversion back is defined in C++20.
template <typename T>
using Unsigned = std::make_unsigned_t<T>;

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <typename T>
constexpr Bits<T> kQuietBit = Bits<T>{1} << (sizeof(T) == 4 ? 22 : 51);

struct Sum {
  template <typename T>
  T Apply(T first, T second) const {
    if constexpr (std::is_floating_point_v<T>) {
      return first + second;
    } else {
      return static_cast<T>(static_cast<Unsigned<T>>(first) +
                            static_cast<Unsigned<T>>(second));
    }
  }
};

struct Product {
  template <typename T>
  T Apply(T first, T second) const {
    if constexpr (std::is_floating_point_v<T>) {
      return first * second;
    } else {
      return static_cast<T>(static_cast<Unsigned<T>>(first) *
                            static_cast<Unsigned<T>>(second));
    }
  }
};

// Selections between values that are all computed, so that they can become
// vector instructions.
template <bool is_min, typename T>
T Extreme(T first, T second) {
  if constexpr (std::is_floating_point_v<T>) {
    const Bits<T> a = std::bit_cast<Bits<T>>(first);
    const Bits<T> b = std::bit_cast<Bits<T>>(second);
    // Equal numbers differ in the sign of zero at most.
    const Bits<T> if_equal = is_min ? (a | b) : (a & b);
    const bool take_first = is_min ? first < second : second < first;
    Bits<T> result = take_first ? a : b;
    result = first == second ? if_equal : result;
    result = second != second ? (b | kQuietBit<T>) : result;
    result = first != first ? (a | kQuietBit<T>) : result;
    return std::bit_cast<T>(result);
  } else {
    return (is_min ? first < second : second < first) ? first : second;
  }
}

struct Min {
  template <typename T>
  T Apply(T first, T second) const {
    return Extreme<true>(first, second);
  }
};

struct Max {
  template <typename T>
  T Apply(T first, T second) const {
    return Extreme<false>(first, second);
  }
};

// Has no second operand.
template <typename T>
struct DivideBy {
  T Apply(T value, T) const { return value / divisor; }
  T divisor;
};

constexpr std::int64_t kBlockBytes = 256;

// The only loop over elements, of constant length and with its result in memory
// of its own: this is what a compiler turns into vector instructions without
// knowing how the buffers lie to one another. The rest of a buffer that does
// not fill a block passes through the very same instructions in a padded copy,
// because the order in which a compiler gives the operands to an addition
// decides which of two NaNs survives.
template <typename Type, typename Op>
void ApplyInBlocks(const Op& op, const unsigned char* first,
                   const unsigned char* second, unsigned char* out,
                   std::int64_t count) {
  using Stored = typename Type::Stored;
  constexpr std::int64_t kBlock = kBlockBytes / sizeof(Stored);
  std::int64_t left = count * static_cast<std::int64_t>(sizeof(Stored));
  unsigned char first_rest[kBlockBytes];
  unsigned char second_rest[kBlockBytes];
  while (left > 0) {
    const bool whole = left >= kBlockBytes;
    const std::size_t bytes =
        static_cast<std::size_t>(whole ? kBlockBytes : left);
    if (!whole) {
      std::memset(first_rest, 0, kBlockBytes);
      std::memset(second_rest, 0, kBlockBytes);
      std::memcpy(first_rest, first, bytes);
      std::memcpy(second_rest, second, bytes);
    }
    const unsigned char* const a = whole ? first : first_rest;
    const unsigned char* const b = whole ? second : second_rest;
    Stored result[kBlock];
    for (std::int64_t i = 0; i < kBlock; ++i) {
      Stored x, y;
      std::memcpy(&x, a + i * sizeof(Stored), sizeof(Stored));
      std::memcpy(&y, b + i * sizeof(Stored), sizeof(Stored));
      result[i] = Type::Store(op.Apply(Type::Load(x), Type::Load(y)));
    }
    if (whole) {
      std::memcpy(out, result, kBlockBytes);
    } else {
      std::memcpy(out, result, bytes);
    }
    first += bytes;
    second += bytes;
    out += bytes;
    left -= static_cast<std::int64_t>(bytes);
  }
}

template <typename Type>
void ReduceAs(ReduceOp op, const unsigned char* first,
              const unsigned char* second, unsigned char* out,
              std::int64_t count) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return ApplyInBlocks<Type>(Sum(), first, second, out, count);
    case ReduceOp::kProduct:
      return ApplyInBlocks<Type>(Product(), first, second, out, count);
    case ReduceOp::kMin:
      return ApplyInBlocks<Type>(Min(), first, second, out, count);
    case ReduceOp::kMax:
      return ApplyInBlocks<Type>(Max(), first, second, out, count);
  }
}

template <typename Type>
void Divide(unsigned char* data, std::int64_t count, int world_size) {
  using T = typename Type::Computed;
  ApplyInBlocks<Type>(DivideBy<T>{static_cast<T>(world_size)}, data, data, data,
                      count);
}

}  // namespace

void Reduce(DType dtype, ReduceOp op, const void* first, const void* second,
            void* out, std::int64_t count) {
  const auto* const a = static_cast<const unsigned char*>(first);
  const auto* const b = static_cast<const unsigned char*>(second);
  auto* const c = static_cast<unsigned char*>(out);
  switch (dtype) {
    case DType::kF32:
      return ReduceAs<F32>(op, a, b, c, count);
    case DType::kF64:
      return ReduceAs<F64>(op, a, b, c, count);
    case DType::kF16:
      return ReduceAs<F16>(op, a, b, c, count);
    case DType::kBF16:
      return ReduceAs<BF16>(op, a, b, c, count);
    case DType::kI8:
      return ReduceAs<I8>(op, a, b, c, count);
    case DType::kU8:
      return ReduceAs<U8>(op, a, b, c, count);
    case DType::kI32:
      return ReduceAs<I32>(op, a, b, c, count);
    case DType::kI64:
      return ReduceAs<I64>(op, a, b, c, count);
  }
}

void FinishReduce(DType dtype, ReduceOp op, void* data, std::int64_t count,
                  int world_size) {
  if (op != ReduceOp::kAverage) return;
  auto* const bytes = static_cast<unsigned char*>(data);
  switch (dtype) {
    case DType::kF32:
      return Divide<F32>(bytes, count, world_size);
    case DType::kF64:
      return Divide<F64>(bytes, count, world_size);
    case DType::kF16:
      return Divide<F16>(bytes, count, world_size);
    case DType::kBF16:
      return Divide<BF16>(bytes, count, world_size);
    case DType::kI8:
      return Divide<I8InDivision>(bytes, count, world_size);
    case DType::kU8:
      return Divide<U8InDivision>(bytes, count, world_size);
    case DType::kI32:
      return Divide<I32>(bytes, count, world_size);
    case DType::kI64:
      return Divide<I64>(bytes, count, world_size);
  }
}

}  // namespace shoal::internal
