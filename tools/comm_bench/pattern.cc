// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal::comm_bench {
namespace {

// Up to which a type holds every integer, or modulo which it counts: 64 ranks'
// elements add up to less.
std::int64_t LargestSum(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 256;
    case DType::kF16:
      return 2048;
    default:
      return std::int64_t{1} << 23;
  }
}

// Element i of a rank. Up and down with i, so that most elements in a wrong
// place are wrong elements.
std::int64_t InputElement(DType dtype, ReduceOp op, int rank, std::int64_t i) {
  const std::int64_t mixed = i * i % 1021 + i % 11 * rank + 7 * rank;
  if (op == ReduceOp::kProduct) {
    // A few factors of two, so that 64 ranks make no more than 2^8.
    return (mixed + rank) % 8 == 0 && rank % 8 == i % 8 ? 2 : 1;
  }
  return mixed % (LargestSum(dtype) / 64);
}

template <typename T>
T ConvertTo(std::int64_t value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(value));
  } else {
    return static_cast<T>(static_cast<float>(value));
  }
}

std::int64_t Combine(ReduceOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
    case ReduceOp::kUser:
      return a + b;
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kAnd:
      return a & b;
    case ReduceOp::kOr:
      return a | b;
    case ReduceOp::kXor:
      return a ^ b;
  }
  return 0;
}

// The sum, in the type, over the world size.
template <typename T>
T Divide(T sum, int world_size) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(sum) / world_size);
  } else if constexpr (std::is_same_v<T, double>) {
    return sum / world_size;
  } else {
    return static_cast<T>(static_cast<float>(sum) /
                          static_cast<float>(world_size));
  }
}

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void FillPeriods(ReduceOp op, int world_size, std::vector<std::string>* ranks,
                 std::string* reduced) {
  constexpr DType kType = DTypeOf<T>();
  ranks->resize(world_size);
  for (std::int64_t i = 0; i < Pattern::kPeriod; ++i) {
    std::int64_t result = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      const std::int64_t element = InputElement(kType, op, rank, i);
      Append(ConvertTo<T>(element), &(*ranks)[rank]);
      // What an integer type does not hold wraps around, as sums do.
      const auto held = [element]() -> std::int64_t {
        if constexpr (std::is_integral_v<T>) {
          return static_cast<std::int64_t>(ConvertTo<T>(element));
        }
        return element;
      }();
      result = rank == 0 ? held : Combine(op, result, held);
    }
    const T value = ConvertTo<T>(result);
    Append(op == ReduceOp::kAverage ? Divide(value, world_size) : value,
           reduced);
  }
}

float FloatAt(const char* data) {
  float value = 0;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// What an element may be off by, relative to the largest that is rounded with
// it, if each rounding is off by `unit`: none is rounded more often, with its
// operands and partial sums, than once a rank and once at the end.
double RelativeTolerance(double unit, int world_size) {
  return world_size == 1 ? 0 : std::pow(1 + unit, world_size + 1) - 1;
}

// Calls `use` for pieces that do not reach over the end of a period, with
// their place in the period and in the data, and their length, in elements.
template <typename Use>
void ForPieces(std::int64_t first, std::int64_t count, const Use& use) {
  std::int64_t done = 0;
  while (done < count) {
    const std::int64_t place = (first + done) % Pattern::kPeriod;
    const std::int64_t length =
        std::min(count - done, Pattern::kPeriod - place);
    use(place, done, length);
    done += length;
  }
}

}  // namespace

Pattern::Pattern(DType dtype, ReduceOp op, int world_size, WireFormat wire)
    : element_bytes_(static_cast<std::int64_t>(DTypeSize(dtype))) {
  const auto fill = [&](auto zero) {
    FillPeriods<decltype(zero)>(op, world_size, &ranks_, &reduced_);
  };
  switch (dtype) {
    case DType::kF32:
      fill(float{});
      break;
    case DType::kF64:
      fill(double{});
      break;
    case DType::kF16:
      fill(Float16{});
      break;
    case DType::kBF16:
      fill(BFloat16{});
      break;
    case DType::kI8:
      fill(std::int8_t{});
      break;
    case DType::kU8:
      fill(std::uint8_t{});
      break;
    case DType::kI32:
      fill(std::int32_t{});
      break;
    case DType::kI64:
      fill(std::int64_t{});
      break;
  }
  if (wire == WireFormat::kBF16) {
    // Half of the last of 8 bits.
    relative_tolerance_ = RelativeTolerance(1.0 / 256, world_size);
  } else if (wire == WireFormat::kQ8_0) {
    // A block's elements are off by half a step, which is the largest magnitude
    // over 127, and by what the step is off by as an f16.
    float largest = 0;
    for (std::int64_t i = 0; i < kPeriod; ++i) {
      largest = std::max(largest, FloatAt(&reduced_[i * element_bytes_]));
      for (const Period& rank : ranks_) {
        largest = std::max(largest, FloatAt(&rank[i * element_bytes_]));
      }
    }
    const double unit = 1.0 / 254 + 1.0 / 2048;
    // Of a product, whose factors are 1 and more, the other factors multiply
    // what one is off by.
    tolerance_ = largest * RelativeTolerance(
                               op == ReduceOp::kProduct ? unit * largest : unit,
                               world_size);
  }
}

bool Pattern::IsWithinTolerance(const char* expected,
                                const char* actual) const {
  if (tolerance_ == 0 && relative_tolerance_ == 0) return false;
  const double right = FloatAt(expected);
  // Not so for a NaN.
  return std::abs(FloatAt(actual) - right) <=
         tolerance_ + relative_tolerance_ * std::abs(right);
}

const Pattern::Period& Pattern::PeriodOf(int whose) const {
  return whose == kReduced ? reduced_ : ranks_[whose];
}

void Pattern::Fill(int whose, std::int64_t first, std::int64_t count,
                   void* data) const {
  const char* period = PeriodOf(whose).data();
  char* bytes = static_cast<char*>(data);
  ForPieces(first, count,
            [&](std::int64_t from, std::int64_t to, std::int64_t length) {
              std::memcpy(bytes + to * element_bytes_,
                          period + from * element_bytes_,
                          length * element_bytes_);
            });
}

std::int64_t Pattern::CountWrong(int whose, std::int64_t first,
                                 std::int64_t count, const void* data) const {
  const char* period = PeriodOf(whose).data();
  const char* bytes = static_cast<const char*>(data);
  std::int64_t wrong = 0;
  ForPieces(
      first, count,
      [&](std::int64_t from, std::int64_t to, std::int64_t length) {
        const char* expected = period + from * element_bytes_;
        const char* actual = bytes + to * element_bytes_;
        if (std::memcmp(actual, expected, length * element_bytes_) == 0) return;
        for (std::int64_t i = 0; i < length; ++i) {
          if (std::memcmp(actual + i * element_bytes_,
                          expected + i * element_bytes_, element_bytes_) != 0 &&
              !(whose == kReduced &&
                IsWithinTolerance(expected + i * element_bytes_,
                                  actual + i * element_bytes_))) {
            ++wrong;
          }
        }
      });
  return wrong;
}

}  // namespace shoal::comm_bench
