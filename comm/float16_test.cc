// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/float16.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "gtest/gtest.h"

namespace shoal {
namespace {

// What the two formats have in common.
struct Format {
  int fraction_bits;
  int min_exponent;  // of the smallest normal number, 1.0 * 2^min_exponent
  int max_exponent;
};
constexpr Format kFloat16Format = {10, -14, 15};
constexpr Format kBFloat16Format = {7, -126, 127};

// The value of `bits`, from the definition of the format.
double Decode(std::uint16_t bits, const Format& format) {
  const int exponent_mask = 2 * format.max_exponent + 1;
  const int exponent = (bits >> format.fraction_bits) & exponent_mask;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == exponent_mask) {
    if (fraction != 0) return std::numeric_limits<double>::quiet_NaN();
    return sign * std::numeric_limits<double>::infinity();
  }
  const int implicit = exponent == 0 ? 0 : 1 << format.fraction_bits;
  const int scale =
      (exponent == 0 ? format.min_exponent : exponent - format.max_exponent) -
      format.fraction_bits;
  return sign * std::ldexp(fraction + implicit, scale);
}

// The finite or infinite number of the format nearest to `value`, ties to even,
// from the definition of rounding.
double Round(float value, const Format& format) {
  if (value == 0.0f || std::isinf(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int unit =
      std::max(exponent - 1, format.min_exponent) - format.fraction_bits;
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::abs(rounded) >= std::ldexp(1.0, format.max_exponent + 1)) {
    return std::copysign(std::numeric_limits<double>::infinity(), rounded);
  }
  return rounded;
}

template <typename T>
void ExpectRounds(float value, const Format& format) {
  const T converted(value);
  const double expected = Round(value, format);
  const double actual = Decode(converted.bits, format);
  ASSERT_EQ(actual, expected)
      << "of " << std::hexfloat << value << ", bits " << converted.bits;
  ASSERT_EQ(std::signbit(actual), std::signbit(value));
}

template <typename T>
void ExpectNanStays(std::uint32_t nan_bits, std::uint32_t infinity,
                    int dropped_bits) {
  const T converted(std::bit_cast<float>(nan_bits));
  ASSERT_GT(converted.bits & 0x7fffu, infinity) << std::hex << nan_bits;
  ASSERT_EQ(converted.bits >> 15, nan_bits >> 31);
  const std::uint32_t fraction = (1u << (23 - dropped_bits)) - 1;
  const std::uint32_t quiet = 1u << (22 - dropped_bits);
  ASSERT_EQ(converted.bits & fraction,
            ((nan_bits >> dropped_bits) & fraction) | quiet)
      << std::hex << nan_bits;
}

TEST(Float16Test, EveryValueToFloat) {
  for (int i = 0; i < 65536; ++i) {
    const std::uint16_t bits = static_cast<std::uint16_t>(i);
    const double expected = Decode(bits, kFloat16Format);
    const float actual = static_cast<float>(Float16::FromBits(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << i;
      // Sign and payload are kept, and it is quiet.
      ASSERT_EQ(
          std::bit_cast<std::uint32_t>(actual),
          ((bits & 0x8000u) << 16) | 0x7fc00000u | ((bits & 0x3ffu) << 13));
    } else {
      ASSERT_EQ(actual, expected) << i;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << i;
      ASSERT_EQ(Float16(actual).bits, bits);
    }
  }
}

TEST(BFloat16Test, EveryValueToFloat) {
  for (int i = 0; i < 65536; ++i) {
    const std::uint16_t bits = static_cast<std::uint16_t>(i);
    const double expected = Decode(bits, kBFloat16Format);
    const float actual = static_cast<float>(BFloat16::FromBits(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << i;
    } else {
      ASSERT_EQ(actual, expected) << i;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << i;
      ASSERT_EQ(BFloat16(actual).bits, bits);
    }
  }
}

// Around every number of the format and every midpoint between two of them:
// the float itself and its neighbours.
TEST(Float16Test, RoundsAroundEveryNumberAndMidpoint) {
  for (std::uint32_t i = 0; i <= 0x7c00u; ++i) {
    // In float, 2^16 stands where binary16 has its infinity.
    const float low = i == 0x7c00u ? 65536.0f
                                   : static_cast<float>(Float16::FromBits(
                                         static_cast<std::uint16_t>(i)));
    const float high = i + 1 >= 0x7c00u
                           ? 65536.0f
                           : static_cast<float>(Float16::FromBits(
                                 static_cast<std::uint16_t>(i + 1)));
    for (const float base : {low, (low + high) / 2}) {
      for (const float value :
           {base, std::nextafter(base, -1.0f), std::nextafter(base, 1e30f)}) {
        ASSERT_NO_FATAL_FAILURE(ExpectRounds<Float16>(value, kFloat16Format));
        ASSERT_NO_FATAL_FAILURE(ExpectRounds<Float16>(-value, kFloat16Format));
      }
    }
  }
}

// All values of the upper half, with the lower halves that matter.
TEST(BFloat16Test, RoundsAroundEveryNumberAndMidpoint) {
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (const std::uint32_t lower :
         {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const std::uint32_t bits = (upper << 16) | lower;
      const float value = std::bit_cast<float>(bits);
      if (std::isnan(value)) {
        ASSERT_NO_FATAL_FAILURE(ExpectNanStays<BFloat16>(bits, 0x7f80u, 16));
      } else {
        ASSERT_NO_FATAL_FAILURE(ExpectRounds<BFloat16>(value, kBFloat16Format));
      }
    }
  }
}

TEST(Float16Test, RoundsAllOverTheFloats) {
  // The step is prime, so that all lower bits occur.
  for (std::uint64_t i = 0; i < (std::uint64_t{1} << 32); i += 4099) {
    const std::uint32_t bits = static_cast<std::uint32_t>(i);
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) {
      ASSERT_NO_FATAL_FAILURE(ExpectNanStays<Float16>(bits, 0x7c00u, 13));
    } else {
      ASSERT_NO_FATAL_FAILURE(ExpectRounds<Float16>(value, kFloat16Format));
    }
  }
}

TEST(BFloat16Test, RoundsAllOverTheFloats) {
  for (std::uint64_t i = 0; i < (std::uint64_t{1} << 32); i += 4099) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    if (std::isnan(value)) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectRounds<BFloat16>(value, kBFloat16Format));
  }
}

TEST(Float16Test, NanWhosePayloadIsInTheDroppedBitsStaysNan) {
  for (const std::uint32_t bits :
       {0x7f800001u, 0xff800001u, 0x7f801fffu, 0x7fc00000u, 0xffffffffu}) {
    ASSERT_NO_FATAL_FAILURE(ExpectNanStays<Float16>(bits, 0x7c00u, 13));
    ASSERT_NO_FATAL_FAILURE(ExpectNanStays<BFloat16>(bits, 0x7f80u, 16));
  }
}

TEST(Float16Test, KnownValues) {
  EXPECT_EQ(Float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(Float16(-2.0f).bits, 0xc000);
  EXPECT_EQ(Float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Float16(65519.99f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(Float16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(Float16(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(Float16().bits, 0);
  EXPECT_EQ(BFloat16{}.bits, 0);
  // They can be copied as bytes and left uninitialised in large arrays.
  static_assert(std::is_trivial_v<Float16> && std::is_trivial_v<BFloat16>);
  // The conversions are constant expressions.
  static_assert(Float16(0.5f).bits == 0x3800);
  static_assert(static_cast<float>(BFloat16::FromBits(0x4000)) == 2.0f);
}

}  // namespace
}  // namespace shoal
