// SPDX-License-Identifier: Apache-2.0
//
// The element types of Shoal: one enumeration for every package.
//
// A `DType` says how the elements of a buffer lie in memory. It is also what
// travels in message headers, so that the numeric values are part of the wire
// format and never change. A package that has no operation for a type refuses
// it with `INVALID_ARGUMENT`; nothing converts in silence.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_DTYPE_H_
#define SHOAL_COMM_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/float16.h"

namespace shoal {

// All multi-byte types are in the machine's byte order, which has to be
// little-endian (checked when the library is compiled).
enum class DType : std::uint8_t {
  kF32 = 0,
  kF64 = 1,
  kF16 = 2,   // IEEE 754 binary16
  kBF16 = 3,  // the upper half of a binary32
  kI8 = 4,
  kU8 = 5,
  kI32 = 6,
  kI64 = 7,
};

inline constexpr DType kAllDTypes[] = {DType::kF32,  DType::kF64, DType::kF16,
                                       DType::kBF16, DType::kI8,  DType::kU8,
                                       DType::kI32,  DType::kI64};

// True for the values named above; what arrives from a peer is checked by it.
bool IsValidDType(DType dtype);

// Bytes of one element. `dtype` must be valid.
std::size_t DTypeSize(DType dtype);

// "f32", "bf16", ...; "dtype(17)" for a value that is none.
absl::string_view DTypeName(DType dtype);

// The inverse of `DTypeName`. `INVALID_ARGUMENT` names the text and the choice.
absl::StatusOr<DType> ParseDType(absl::string_view name);

bool IsFloatingPoint(DType dtype);

std::ostream& operator<<(std::ostream& out, DType dtype);

// DTypeOf<float>() is DType::kF32, and so on for every C++ type that has one.
template <typename T>
constexpr DType DTypeOf() = delete;
template <>
constexpr DType DTypeOf<float>() {
  return DType::kF32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kF64;
}
template <>
constexpr DType DTypeOf<Float16>() {
  return DType::kF16;
}
template <>
constexpr DType DTypeOf<BFloat16>() {
  return DType::kBF16;
}
template <>
constexpr DType DTypeOf<std::int8_t>() {
  return DType::kI8;
}
template <>
constexpr DType DTypeOf<std::uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType DTypeOf<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType DTypeOf<std::int64_t>() {
  return DType::kI64;
}

}  // namespace shoal

#endif  // SHOAL_COMM_DTYPE_H_
