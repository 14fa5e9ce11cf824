// SPDX-License-Identifier: Apache-2.0
//
// The two 16-bit floating-point types, as storage with exact conversions.
//
// Neither has arithmetic of its own: it is done in float and rounded back, and
// whoever does so says how often. Conversion to float is exact; conversion from
// float rounds to nearest, ties to even, as IEEE 754 and the machines'
// instructions do, with subnormal numbers. What is too large becomes infinity.
// A NaN stays one, keeps its sign and the upper bits of its payload, and
// becomes quiet where it has to be shortened.
//
// There is no operator==: compare `bits`, or the values as floats.
//
// Values; thread-safe. The conversions assume the default rounding mode.

#ifndef SHOAL_COMM_FLOAT16_H_
#define SHOAL_COMM_FLOAT16_H_

#include <bit>
#include <cstdint>

#include "shoal/base/dialect.h"

namespace shoal {

// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
struct Float16 {
  Float16() = default;  // not initialised, like a float
  explicit constexpr Float16(float value);
  static constexpr Float16 FromBits(std::uint16_t bits);
  explicit constexpr operator float() const;

  std::uint16_t bits;
};

// The upper half of a binary32: 1 sign, 8 exponent and 7 fraction bits.
struct BFloat16 {
  BFloat16() = default;  // not initialised, like a float
  explicit constexpr BFloat16(float value);
  static constexpr BFloat16 FromBits(std::uint16_t bits);
  explicit constexpr operator float() const;

  std::uint16_t bits;
};

namespace internal {

// `a` if `condition`, else `b`, with no branch: so a compiler can turn a loop
// over conversions into vector instructions.
constexpr std::uint32_t SelectBits(bool condition, std::uint32_t a,
                                   std::uint32_t b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

}  // namespace internal

// Magnitudes are signed because vector units compare those.

constexpr Float16::Float16(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (all >> 16) & 0x8000u;
  const std::int32_t magnitude = static_cast<std::int32_t>(all & 0x7fffffffu);
  const std::uint32_t absolute = all & 0x7fffffffu;
  constexpr std::int32_t kHalf = 0x3f000000;
  constexpr std::int32_t kSmallestNormal = 0x38800000;  // 2^-14
  constexpr std::int32_t kTooLarge = 0x47800000;        // 2^16
  constexpr std::int32_t kInfinity = 0x7f800000;
  // The exponent's bias falls from 127 to 15; half a unit, less one where the
  // last bit kept is 0, makes truncation round to nearest even. The carry out
  // of the largest fraction makes infinity.
  const std::uint32_t normal =
      (absolute - (112u << 23) + 0xfffu + ((absolute >> 13) & 1u)) >> 13;
  // A unit of 0.5f is a unit of the subnormal numbers, so that the addition
  // rounds.
  const float small = std::bit_cast<float>(
      internal::SelectBits(magnitude < kSmallestNormal, absolute, 0u));
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(small + 0.5f) - kHalf;
  const std::uint32_t nan = 0x7e00u | ((absolute >> 13) & 0x3ffu);
  std::uint32_t result =
      internal::SelectBits(magnitude < kSmallestNormal, subnormal, normal);
  result = internal::SelectBits(magnitude >= kTooLarge, 0x7c00u, result);
  result = internal::SelectBits(magnitude > kInfinity, nan, result);
  bits = static_cast<std::uint16_t>(sign | result);
}

constexpr Float16 Float16::FromBits(std::uint16_t bits) {
  Float16 result{};
  result.bits = bits;
  return result;
}

constexpr Float16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::int32_t magnitude = bits & 0x7fff;
  const std::uint32_t shifted = static_cast<std::uint32_t>(magnitude) << 13;
  const std::uint32_t normal = shifted + (112u << 23);
  // The product is exact: at most 15 bits times a power of two.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  const std::uint32_t infinity_or_nan =
      0x7f800000u | shifted |
      internal::SelectBits(magnitude > 0x7c00, 0x400000u, 0u);
  std::uint32_t result =
      internal::SelectBits(magnitude < 0x400, subnormal, normal);
  result = internal::SelectBits(magnitude >= 0x7c00, infinity_or_nan, result);
  return std::bit_cast<float>(sign | result);
}

constexpr BFloat16::BFloat16(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (all + 0x7fffu + ((all >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (all >> 16) | 0x40u;
  const std::int32_t magnitude = static_cast<std::int32_t>(all & 0x7fffffffu);
  bits = static_cast<std::uint16_t>(
      internal::SelectBits(magnitude > 0x7f800000, nan, rounded));
}

constexpr BFloat16 BFloat16::FromBits(std::uint16_t bits) {
  BFloat16 result{};
  result.bits = bits;
  return result;
}

constexpr BFloat16::operator float() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace shoal

#endif  // SHOAL_COMM_FLOAT16_H_
