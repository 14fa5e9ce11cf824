// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/dtype.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal {
namespace {

static_assert(std::endian::native == std::endian::little,
              "Shoal sends elements as they lie in memory and needs a "
              "little-endian machine.");
static_assert(sizeof(float) == 4 && sizeof(double) == 8 &&
              sizeof(Float16) == 2 && sizeof(BFloat16) == 2);

// Null for a value that is no type.
const char* NameOrNull(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return nullptr;
}

// What a view of any value's name refers to.
std::array<std::string, 256> MakeNames() {
  std::array<std::string, 256> names;
  for (int i = 0; i < 256; ++i) {
    const char* const name = NameOrNull(static_cast<DType>(i));
    names[i] = name != nullptr ? name : absl::StrCat("dtype(", i, ")");
  }
  return names;
}

}  // namespace

bool IsValidDType(DType dtype) { return NameOrNull(dtype) != nullptr; }

std::size_t DTypeSize(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
      return 1;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
  }
  return 0;
}

absl::string_view DTypeName(DType dtype) {
  static const auto* const names =
      new std::array<std::string, 256>(MakeNames());
  return (*names)[static_cast<std::uint8_t>(dtype)];
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  std::string choice;
  for (const DType dtype : kAllDTypes) {
    if (name == NameOrNull(dtype)) return dtype;
    absl::StrAppend(&choice, choice.empty() ? "" : ", ", NameOrNull(dtype));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown element type \"", name, "\"; choose one of ", choice));
}

bool IsFloatingPoint(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
      return true;
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
    case DType::kI64:
      return false;
  }
  return false;
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << DTypeName(dtype);
}

}  // namespace shoal
