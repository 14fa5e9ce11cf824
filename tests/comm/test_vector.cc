// SPDX-License-Identifier: Apache-2.0

#include "shoal/tests/comm/test_vector.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::tests {
namespace {

constexpr std::size_t kGuardBytes = 64;
constexpr std::uint8_t kGuard = 0x5A;

// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

template <typename T>
std::uint64_t ToBits(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
T CombineFloats(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return a + b;
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
      if (a == b) return std::signbit(a) ? a : b;
      return a < b ? a : b;
    case ReduceOp::kMax:
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
      if (a == b) return std::signbit(a) ? b : a;
      return a > b ? a : b;
    case ReduceOp::kAnd:
    case ReduceOp::kOr:
    case ReduceOp::kXor:
    case ReduceOp::kUser:
      break;  // refused
  }
  return a;
}

template <typename T>
T CombineIntegers(ReduceOp op, T a, T b) {
  // 64 bits of a sum or product, cut to fewer, are those of the fewer.
  const std::uint64_t x = static_cast<std::uint64_t>(a);
  const std::uint64_t y = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return static_cast<T>(x + y);
    case ReduceOp::kProduct:
      return static_cast<T>(x * y);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kAnd:
      return static_cast<T>(x & y);
    case ReduceOp::kOr:
      return static_cast<T>(x | y);
    case ReduceOp::kXor:
      return static_cast<T>(x ^ y);
    case ReduceOp::kUser:
      break;
  }
  return a;
}

// The arithmetic of one type.
template <typename T>
struct Arithmetic {
  static T Combine(ReduceOp op, T a, T b) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      return T(CombineFloats(op, static_cast<float>(a), static_cast<float>(b)));
    } else if constexpr (std::is_floating_point_v<T>) {
      return CombineFloats(op, a, b);
    } else {
      return CombineIntegers(op, a, b);
    }
  }

  static T Divide(T value, int world_size) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      return T(static_cast<float>(value) / static_cast<float>(world_size));
    } else if constexpr (std::is_floating_point_v<T>) {
      return value / static_cast<T>(world_size);
    } else {
      return static_cast<T>(static_cast<std::int64_t>(value) / world_size);
    }
  }

  static T Input(int rank, std::int64_t i) {
    const std::uint64_t random =
        Mix(static_cast<std::uint64_t>(rank) * 0xD1342543DE82EF95 +
            static_cast<std::uint64_t>(i));
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(random);
    } else {
      const double magnitude =
          0.5 + 1.5 * static_cast<double>(random >> 11) / 9007199254740992.0;
      const double value = (random & 1) != 0 ? -magnitude : magnitude;
      if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(value);
      } else {
        return T(static_cast<float>(value));
      }
    }
  }
};

// What ranks hold of one element, folded.
template <typename T>
class Fold {
 public:
  Fold(ReduceOp op, int world_size, std::int64_t i)
      : op_(op), world_size_(world_size), i_(i) {}

  // ((x[c+1] op x[c+2]) op ...) op x[c].
  T Ring(int chunk) const {
    T value = Input(chunk + 1);
    for (int hop = 2; hop <= world_size_; ++hop) {
      value = Combine(value, Input(chunk + hop));
    }
    return Finish(value);
  }

  // Ranks [begin, end), cut at the largest power of two below their number.
  T Tree() const { return Finish(Tree(0, world_size_)); }

  // ((x[0] op x[1]) op ...); sixteen bits are rounded at the end only.
  T Ascending() const {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      if (world_size_ == 1) return Input(0);
      float value = static_cast<float>(Input(0));
      for (int rank = 1; rank < world_size_; ++rank) {
        value = CombineFloats(op_, value, static_cast<float>(Input(rank)));
      }
      if (op_ == ReduceOp::kAverage) value /= static_cast<float>(world_size_);
      return T(value);
    } else {
      T value = Input(0);
      for (int rank = 1; rank < world_size_; ++rank) {
        value = Combine(value, Input(rank));
      }
      return Finish(value);
    }
  }

  // `chunk`: what a ring's order depends on, the chunk of the element, or a
  // chain's, the root.
  T By(Algorithm algorithm, int chunk) const {
    switch (algorithm) {
      case Algorithm::kRing:
      case Algorithm::kChain:
        return Ring(chunk);
      case Algorithm::kRecursiveDoubling:
      case Algorithm::kHalvingDoubling:
        return RecursiveDoubling();
      case Algorithm::kTree:
        return Tree();
      default:
        return Ascending();
    }
  }

  T RecursiveDoubling() const {
    int power = 1;
    while (2 * power <= world_size_) power *= 2;
    const int pairs = world_size_ - power;
    std::vector<T> values;
    for (int rank = 0; rank < world_size_; ++rank) {
      if (rank < 2 * pairs) {
        values.push_back(Combine(Input(rank), Input(rank + 1)));
        ++rank;
      } else {
        values.push_back(Input(rank));
      }
    }
    while (values.size() > 1) {
      for (std::size_t k = 0; 2 * k < values.size(); ++k) {
        values[k] = Combine(values[2 * k], values[2 * k + 1]);
      }
      values.resize(values.size() / 2);
    }
    return Finish(values[0]);
  }

 private:
  T Tree(int begin, int end) const {
    if (end - begin == 1) return Input(begin);
    int power = 1;
    while (2 * power < end - begin) power *= 2;
    return Combine(Tree(begin, begin + power), Tree(begin + power, end));
  }

  T Input(int rank) const {
    return Arithmetic<T>::Input(rank % world_size_, i_);
  }
  T Combine(T a, T b) const { return Arithmetic<T>::Combine(op_, a, b); }
  T Finish(T value) const {
    // One rank's average is its own value.
    return op_ == ReduceOp::kAverage ? Arithmetic<T>::Divide(value, world_size_)
                                     : value;
  }

  ReduceOp op_;
  int world_size_;
  std::int64_t i_;
};

// Calls `function` with a value of the type.
template <typename Function>
std::uint64_t ForType(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kF32:
      return function(float());
    case DType::kF64:
      return function(double());
    case DType::kF16:
      return function(Float16());
    case DType::kBF16:
      return function(BFloat16());
    case DType::kI8:
      return function(std::int8_t());
    case DType::kU8:
      return function(std::uint8_t());
    case DType::kI32:
      return function(std::int32_t());
    case DType::kI64:
      return function(std::int64_t());
  }
  return 0;
}

// The part of an even cut into `parts` that element i of `count` is in.
int PartOf(std::int64_t count, int parts, std::int64_t i) {
  const std::int64_t longer = count % parts;
  const std::int64_t length = count / parts;
  const std::int64_t in_longer = longer * (length + 1);
  return static_cast<int>(i < in_longer ? i / (length + 1)
                                        : longer + (i - in_longer) / length);
}

}  // namespace

TestVector::TestVector(DType dtype, std::int64_t count, int misalignment)
    : dtype_(dtype), count_(count) {
  bytes_.assign(size_bytes() + 2 * kGuardBytes + 16, kGuard);
  const std::uintptr_t address =
      reinterpret_cast<std::uintptr_t>(bytes_.data()) + kGuardBytes;
  offset_ = kGuardBytes + (16 - address % 16) % 16 + misalignment;
}

Buffer TestVector::part(std::int64_t begin, std::int64_t count) {
  return {data() + begin * static_cast<std::int64_t>(DTypeSize(dtype_)), count,
          dtype_};
}

void TestVector::Fill(int rank) {
  const std::size_t size = DTypeSize(dtype_);
  for (std::int64_t i = 0; i < count_; ++i) {
    const std::uint64_t bits = InputBits(dtype_, rank, i);
    std::memcpy(data() + i * size, &bits, size);
  }
}

std::uint64_t TestVector::Bits(std::int64_t i) const {
  const std::size_t size = DTypeSize(dtype_);
  std::uint64_t bits = 0;
  std::memcpy(&bits, data() + i * size, size);
  return bits;
}

absl::Status TestVector::CheckGuards() const {
  const auto is_guard = [](std::uint8_t byte) { return byte == kGuard; };
  const auto begin = bytes_.begin() + offset_;
  if (std::all_of(bytes_.begin(), begin, is_guard) &&
      std::all_of(begin + size_bytes(), bytes_.end(), is_guard)) {
    return absl::OkStatus();
  }
  return absl::InternalError("memory beside the buffer was written");
}

std::uint64_t TestVector::Hash() const {
  std::uint64_t hash = Mix(size_bytes());
  std::size_t i = 0;
  for (; i + 8 <= size_bytes(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, data() + i, 8);
    hash = Mix(hash ^ word);
  }
  for (; i < size_bytes(); ++i) hash = Mix(hash ^ data()[i]);
  return hash;
}

std::uint64_t InputBits(DType dtype, int rank, std::int64_t i) {
  return ForType(dtype, [&](auto type) {
    return ToBits(Arithmetic<decltype(type)>::Input(rank, i));
  });
}

std::uint64_t AllReduceBits(DType dtype, ReduceOp op, Algorithm algorithm,
                            int world_size, std::int64_t count,
                            std::int64_t i) {
  return ForType(dtype, [&](auto type) {
    return ToBits(Fold<decltype(type)>(op, world_size, i)
                      .By(algorithm, PartOf(count, world_size, i)));
  });
}

std::uint64_t ReduceScatterBits(DType dtype, ReduceOp op, Algorithm algorithm,
                                int world_size, std::int64_t count, int part,
                                std::int64_t i) {
  return ForType(dtype, [&](auto type) {
    return ToBits(Fold<decltype(type)>(op, world_size, part * count + i)
                      .By(algorithm, part));
  });
}

std::uint64_t ReduceBits(DType dtype, ReduceOp op, Algorithm algorithm,
                         int world_size, int root, std::int64_t i) {
  return ForType(dtype, [&](auto type) {
    return ToBits(Fold<decltype(type)>(op, world_size, i).By(algorithm, root));
  });
}

}  // namespace shoal::tests
