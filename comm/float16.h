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
  constexpr Float16() = default;
  explicit constexpr Float16(float value);
  static constexpr Float16 FromBits(std::uint16_t bits);
  explicit constexpr operator float() const;

  std::uint16_t bits = 0;
};

// The upper half of a binary32: 1 sign, 8 exponent and 7 fraction bits.
struct BFloat16 {
  constexpr BFloat16() = default;
  explicit constexpr BFloat16(float value);
  static constexpr BFloat16 FromBits(std::uint16_t bits);
  explicit constexpr operator float() const;

  std::uint16_t bits = 0;
};

// The definitions select between values and do not branch, so that a compiler
// can turn a loop over them into vector instructions.

constexpr Float16::Float16(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (all >> 16) & 0x8000u;
  const std::uint32_t magnitude = all & 0x7fffffffu;
  // The exponent's bias falls from 127 to 15; half a unit, less one where the
  // last bit kept is 0, makes truncation round to nearest even. The carry out
  // of the largest fraction makes infinity.
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
  // A unit of 0.5f is a unit of the subnormal numbers, so that the addition
  // rounds.
  constexpr std::uint32_t kHalf = 0x3f000000u;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(
          std::bit_cast<float>(magnitude < kHalf ? magnitude : kHalf) + 0.5f) -
      kHalf;
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  constexpr std::uint32_t kTooLarge = 0x47800000u;        // 2^16
  std::uint32_t result = magnitude < kSmallestNormal ? subnormal : normal;
  result = magnitude >= kTooLarge ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? nan : result;
  bits = static_cast<std::uint16_t>(sign | result);
}

constexpr Float16 Float16::FromBits(std::uint16_t bits) {
  Float16 result;
  result.bits = bits;
  return result;
}

constexpr Float16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  // The product is exact: at most 10 bits times a power of two.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  const std::uint32_t infinity_or_nan =
      0x7f800000u | (magnitude << 13) | (magnitude > 0x7c00u ? 0x400000u : 0u);
  std::uint32_t result = magnitude < 0x400u ? subnormal : normal;
  result = magnitude >= 0x7c00u ? infinity_or_nan : result;
  return std::bit_cast<float>(sign | result);
}

constexpr BFloat16::BFloat16(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (all + 0x7fffu + ((all >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (all >> 16) | 0x40u;
  bits = static_cast<std::uint16_t>(
      (all & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

constexpr BFloat16 BFloat16::FromBits(std::uint16_t bits) {
  BFloat16 result;
  result.bits = bits;
  return result;
}

constexpr BFloat16::operator float() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace shoal

#endif  // SHOAL_COMM_FLOAT16_H_
