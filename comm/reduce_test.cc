// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/reduce.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/reduce_reference.h"

namespace shoal::internal {
namespace {

template <typename T>
constexpr bool kIsHalf =
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <typename T>
constexpr bool kIsFloating = std::is_floating_point_v<T> || kIsHalf<T>;

template <typename T>
std::uint64_t BitsOf(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
T FromBits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// Exact for every type of at most 32 bits.
template <typename T>
double ToDouble(T value) {
  if constexpr (kIsHalf<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <typename T>
bool IsNan(T value) {
  return kIsFloating<T> && std::isnan(ToDouble(value));
}

// The bit that makes a NaN quiet: the highest of the fraction.
template <typename T>
std::uint64_t QuietBit() {
  if (std::is_same_v<T, double>) return std::uint64_t{1} << 51;
  if (std::is_same_v<T, float>) return std::uint64_t{1} << 22;
  return std::is_same_v<T, Float16> ? 1u << 9 : 1u << 6;
}

// Min and max from their description. Not for NaNs.
template <typename T>
T Smaller(T first, T second) {
  if constexpr (kIsFloating<T>) {
    if (ToDouble(first) == ToDouble(second)) {
      return std::signbit(ToDouble(first)) ? first : second;
    }
    return ToDouble(first) < ToDouble(second) ? first : second;
  } else {
    return second < first ? second : first;
  }
}

template <typename T>
T Expected(ReduceOp op, T first, T second) {
  if (op == ReduceOp::kAnd) return FromBits<T>(BitsOf(first) & BitsOf(second));
  if (op == ReduceOp::kOr) return FromBits<T>(BitsOf(first) | BitsOf(second));
  if (op == ReduceOp::kXor) return FromBits<T>(BitsOf(first) ^ BitsOf(second));
  if (IsNan(first)) return FromBits<T>(BitsOf(first) | QuietBit<T>());
  if (IsNan(second)) return FromBits<T>(BitsOf(second) | QuietBit<T>());
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    const T smaller = Smaller(first, second);
    if (op == ReduceOp::kMin) return smaller;
    return BitsOf(smaller) == BitsOf(first) ? second : first;
  }
  const bool product = op == ReduceOp::kProduct;
  if constexpr (std::is_floating_point_v<T>) {
    return product ? first * second : first + second;
  } else if constexpr (kIsHalf<T>) {
    const float a = static_cast<float>(first);
    const float b = static_cast<float>(second);
    return T(product ? a * b : a + b);
  } else {
    __extension__ using Wide = __int128;
    const Wide wide = product ? static_cast<Wide>(first) * second
                              : static_cast<Wide>(first) + second;
    return FromBits<T>(static_cast<std::uint64_t>(wide));
  }
}

// The bits of a NaN that comes of numbers are the machine's.
template <typename T>
testing::AssertionResult IsAsExpected(ReduceOp op, T first, T second,
                                      T actual) {
  const T expected = Expected(op, first, second);
  const bool invalid = IsNan(expected) && !IsNan(first) && !IsNan(second);
  if (invalid ? IsNan(actual) : BitsOf(actual) == BitsOf(expected)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << std::hex << BitsOf(first) << " " << op << " " << BitsOf(second)
         << " is " << BitsOf(actual) << ", not " << BitsOf(expected);
}

template <typename T>
std::vector<T> SpecialValues() {
  std::vector<T> values;
  if constexpr (kIsFloating<T>) {
    for (const double value : {0.0, 1.0, 1.5, 3.0, 0.1, 1000.0, 1e-7, 3e38}) {
      if constexpr (kIsHalf<T>) {
        values.push_back(T(static_cast<float>(value)));
        values.push_back(T(static_cast<float>(-value)));
      } else {
        values.push_back(static_cast<T>(value));
        values.push_back(static_cast<T>(-value));
      }
    }
    // All fraction bits below infinity are the largest number; above it are
    // NaNs: signaling, quiet, negative, with several payloads.
    const std::uint64_t infinity = std::is_same_v<T, double>
                                       ? 0x7ff0000000000000u
                                   : std::is_same_v<T, float>    ? 0x7f800000u
                                   : std::is_same_v<T, BFloat16> ? 0x7f80u
                                                                 : 0x7c00u;
    const std::uint64_t sign = std::uint64_t{1} << (8 * sizeof(T) - 1);
    for (const std::uint64_t bits :
         {infinity, infinity - 1, infinity | 1, infinity | 5,
          infinity | QuietBit<T>(), infinity | QuietBit<T>() | 3,
          std::uint64_t{1} /* the smallest subnormal */}) {
      values.push_back(FromBits<T>(bits));
      values.push_back(FromBits<T>(bits | sign));
    }
  } else {
    using Limits = std::numeric_limits<T>;
    for (const std::int64_t value : {0, 1, 2, 3, 7, 100}) {
      values.push_back(static_cast<T>(value));
      values.push_back(static_cast<T>(-value));
    }
    values.push_back(Limits::min());
    values.push_back(Limits::max());
    values.push_back(static_cast<T>(Limits::min() + 1));
    values.push_back(static_cast<T>(Limits::max() / 2 + 1));
  }
  return values;
}

// A pattern of special values that differs by operand.
template <typename T>
std::vector<T> Fill(std::int64_t count, std::size_t stride) {
  const std::vector<T> values = SpecialValues<T>();
  std::vector<T> filled;
  for (std::int64_t i = 0; i < count; ++i) {
    filled.push_back(
        values[(i * stride + stride / 2 + i / values.size()) % values.size()]);
  }
  return filled;
}

// `count` elements at an odd address, with guards on both sides.
class Memory {
 public:
  template <typename T>
  Memory(const std::vector<T>& elements, std::size_t misalignment)
      : size_(elements.size() * sizeof(T)), offset_(64 + misalignment) {
    bytes_.assign(offset_ + size_ + 64, kGuard);
    if (size_ > 0) std::memcpy(data(), elements.data(), size_);
  }

  unsigned char* data() { return bytes_.data() + offset_; }

  template <typename T>
  T At(std::int64_t i) {
    T value;
    std::memcpy(&value, data() + i * sizeof(T), sizeof(T));
    return value;
  }

  bool GuardsAreWhole() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= offset_ && i < offset_ + size_;
      if (!inside && bytes_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kGuard = 0xa5;
  std::size_t size_;
  std::size_t offset_;
  std::vector<unsigned char> bytes_;
};

enum class Alias { kNone, kOutIsFirst, kOutIsSecond, kAllTheSame };

template <typename T>
void ExpectReduces(ReduceOp op, std::int64_t count, std::size_t misalignment,
                   Alias alias) {
  const std::vector<T> a = Fill<T>(count, 7);
  const std::vector<T> b = alias == Alias::kAllTheSame ? a : Fill<T>(count, 11);
  Memory first(a, misalignment);
  Memory second(b, misalignment + 3);
  Memory other(a, misalignment + 5);
  Memory& out = alias == Alias::kNone          ? other
                : alias == Alias::kOutIsSecond ? second
                                               : first;
  Memory& right = alias == Alias::kAllTheSame ? first : second;
  Reduce(DTypeOf<T>(), op, first.data(), right.data(), out.data(), count);
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(IsAsExpected(op, a[i], b[i], out.At<T>(i))) << " at " << i;
  }
  ASSERT_TRUE(first.GuardsAreWhole() && second.GuardsAreWhole() &&
              other.GuardsAreWhole());
}

// Runs the body with the kernels of each instruction set of this machine.
template <typename Body>
void OnEveryTarget(const Body& body) {
  std::int64_t left =
      (hwy::SupportedTargets() | HWY_STATIC_TARGET) & HWY_TARGETS;
  ASSERT_NE(left, 0);
  while (left != 0 && !testing::Test::HasFatalFailure()) {
    const std::int64_t target = left & -left;
    left &= ~target;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

template <typename T>
class ReduceTest : public testing::Test {};

using Types = testing::Types<float, double, Float16, BFloat16, std::int8_t,
                             std::uint8_t, std::int32_t, std::int64_t>;

class TypeNames {
 public:
  template <typename T>
  static std::string GetName(int) {
    return std::string(DTypeName(DTypeOf<T>()));
  }
};

TYPED_TEST_SUITE(ReduceTest, Types, TypeNames);

TYPED_TEST(ReduceTest, EveryOpAliasAndCount) {
  OnEveryTarget([&] {
    for (const ReduceOp op : kAllReduceOps) {
      for (std::int64_t count = 0; count <= 200; ++count) {
        for (const Alias alias : {Alias::kNone, Alias::kOutIsFirst,
                                  Alias::kOutIsSecond, Alias::kAllTheSame}) {
          SCOPED_TRACE(absl::StrCat("count ", count, " alias ",
                                    static_cast<int>(alias)));
          ASSERT_NO_FATAL_FAILURE(
              ExpectReduces<TypeParam>(op, count, count % 7, alias));
        }
      }
    }
  });
}

// Random bits are NaNs too, of every payload.
TYPED_TEST(ReduceTest, RandomBitsAsInThePlainLoop) {
  OnEveryTarget([&] {
    constexpr std::int64_t kCount = 10007;
    constexpr std::size_t kSize = kCount * sizeof(TypeParam);
    std::mt19937_64 random(sizeof(TypeParam));
    std::vector<unsigned char> first(kSize), second(kSize);
    for (std::size_t i = 0; i < kSize; ++i) {
      first[i] = static_cast<unsigned char>(random());
      second[i] = static_cast<unsigned char>(random());
    }
    constexpr DType kType = DTypeOf<TypeParam>();
    for (const ReduceOp op : kAllReduceOps) {
      std::vector<unsigned char> expected(kSize), actual(kSize);
      ReferenceReduce(kType, op, first.data(), second.data(), expected.data(),
                      kCount);
      Reduce(kType, op, first.data(), second.data(), actual.data(), kCount);
      ASSERT_EQ(actual, expected) << op;
      for (const int world_size : {2, 3, 5, 127, 1000003}) {
        ReferenceFinishReduce(kType, op, expected.data(), kCount, world_size);
        FinishReduce(kType, op, actual.data(), kCount, world_size);
        ASSERT_EQ(actual, expected) << op << " " << world_size;
      }
    }
  });
}

TYPED_TEST(ReduceTest, AnyAlignment) {
  OnEveryTarget([&] {
    for (std::size_t misalignment = 0; misalignment < 16; ++misalignment) {
      ASSERT_NO_FATAL_FAILURE(ExpectReduces<TypeParam>(
          ReduceOp::kSum, 333, misalignment, Alias::kOutIsFirst));
    }
  });
}

TYPED_TEST(ReduceTest, EveryPairOfSpecialValues) {
  OnEveryTarget([&] {
    const std::vector<TypeParam> values = SpecialValues<TypeParam>();
    for (const ReduceOp op : kAllReduceOps) {
      for (const TypeParam a : values) {
        for (const TypeParam b : values) {
          TypeParam out{};
          Reduce(DTypeOf<TypeParam>(), op, &a, &b, &out, 1);
          ASSERT_TRUE(IsAsExpected(op, a, b, out));
        }
      }
    }
  });
}

// Two ranks that compute the same sum may cut it differently.
TYPED_TEST(ReduceTest, BitsDoNotDependOnThePlaceInTheBuffer) {
  OnEveryTarget([&] {
    const std::vector<TypeParam> values = SpecialValues<TypeParam>();
    for (const ReduceOp op : kAllReduceOps) {
      for (const TypeParam a : values) {
        for (const TypeParam b : values) {
          constexpr std::int64_t kCount = 300;
          const std::vector<TypeParam> first(kCount, a);
          const std::vector<TypeParam> second(kCount, b);
          std::vector<TypeParam> out(kCount);
          Reduce(DTypeOf<TypeParam>(), op, first.data(), second.data(),
                 out.data(), kCount);
          for (std::int64_t i = 1; i < kCount; ++i) {
            ASSERT_EQ(BitsOf(out[i]), BitsOf(out[0])) << i << " " << op;
          }
        }
      }
    }
  });
}

TYPED_TEST(ReduceTest, FinishDividesAveragesOnly) {
  OnEveryTarget([&] {
    for (const ReduceOp op : kAllReduceOps) {
      for (const int world_size : {1, 2, 3, 7, 64, 1000}) {
        for (const std::int64_t count : {0, 1, 5, 64, 67, 300}) {
          const std::vector<TypeParam> values = Fill<TypeParam>(count, 7);
          Memory memory(values, 1);
          FinishReduce(DTypeOf<TypeParam>(), op, memory.data(), count,
                       world_size);
          ASSERT_TRUE(memory.GuardsAreWhole());
          for (std::int64_t i = 0; i < count; ++i) {
            const TypeParam actual = memory.At<TypeParam>(i);
            if (op != ReduceOp::kAverage) {
              ASSERT_EQ(BitsOf(actual), BitsOf(values[i]));
            } else if (IsNan(values[i])) {
              ASSERT_TRUE(IsNan(actual));
            } else if constexpr (kIsHalf<TypeParam>) {
              ASSERT_EQ(BitsOf(actual),
                        BitsOf(TypeParam(static_cast<float>(values[i]) /
                                         static_cast<float>(world_size))));
            } else if constexpr (kIsFloating<TypeParam>) {
              ASSERT_EQ(BitsOf(actual),
                        BitsOf(static_cast<TypeParam>(values[i] / world_size)));
            } else {
              const std::int64_t value = values[i];
              ASSERT_EQ(static_cast<std::int64_t>(actual), value / world_size)
                  << value << " / " << world_size;
            }
          }
        }
      }
    }
  });
}

template <typename T>
void ExpectEveryValueAsInThePlainLoop() {
  constexpr std::int64_t kCount = 65536;
  std::vector<T> all(kCount), expected(kCount), actual(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) all[i] = FromBits<T>(i);
  for (const T value : SpecialValues<T>()) {
    const std::vector<T> second(kCount, value);
    for (const ReduceOp op : kAllReduceOps) {
      ReferenceReduce(DTypeOf<T>(), op, all.data(), second.data(),
                      expected.data(), kCount);
      Reduce(DTypeOf<T>(), op, all.data(), second.data(), actual.data(),
             kCount);
      ASSERT_EQ(std::memcmp(actual.data(), expected.data(), kCount * 2), 0)
          << op << std::hex << " " << BitsOf(value);
    }
  }
}

TEST(ReduceFloat16Test, EveryValue) {
  OnEveryTarget([&] {
    ExpectEveryValueAsInThePlainLoop<Float16>();
    ExpectEveryValueAsInThePlainLoop<BFloat16>();
  });
}

TEST(ReduceFloat16Test, RoundsOnceToNearestEven) {
  OnEveryTarget([&] {
    // 1 + 2^-11 is halfway between 1 and the next number.
    const Float16 one(1.0f);
    const Float16 half_unit(0x1p-11f);
    Float16 out;
    Reduce(DType::kF16, ReduceOp::kSum, &one, &half_unit, &out, 1);
    EXPECT_EQ(out.bits, Float16(1.0f).bits);
    const Float16 odd(1.0f + 0x1p-10f);
    Reduce(DType::kF16, ReduceOp::kSum, &odd, &half_unit, &out, 1);
    EXPECT_EQ(out.bits, Float16(1.0f + 0x1p-9f).bits);
  });
}

TEST(ReduceIntegerTest, AverageIsTheWrappedSumDividedTowardZero) {
  OnEveryTarget([&] {
    std::int8_t sum = -100;
    const std::int8_t more = -100;
    Reduce(DType::kI8, ReduceOp::kAverage, &sum, &more, &sum, 1);
    EXPECT_EQ(sum, 56);  // -200 wrapped
    sum = -7;
    FinishReduce(DType::kI8, ReduceOp::kAverage, &sum, 1, 2);
    EXPECT_EQ(sum, -3);
    // A world larger than the type.
    sum = 127;
    FinishReduce(DType::kI8, ReduceOp::kAverage, &sum, 1, 256);
    EXPECT_EQ(sum, 0);
    std::uint8_t large = 200;
    FinishReduce(DType::kU8, ReduceOp::kAverage, &large, 1, 3);
    EXPECT_EQ(large, 66);
  });
}

}  // namespace
}  // namespace shoal::internal
