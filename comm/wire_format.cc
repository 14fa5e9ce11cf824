// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/wire_format.h"

#include <array>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/comm/dtype.h"

namespace shoal {
namespace {

// Null for a value that is none of the enumerators.
const char* NameOrNull(WireFormat wire) {
  switch (wire) {
    case WireFormat::kAsData:
      return "data";
    case WireFormat::kF32:
      return "f32";
    case WireFormat::kBF16:
      return "bf16";
    case WireFormat::kQ8_0:
      return "q8_0";
  }
  return nullptr;
}

// What a view of any value's name refers to.
std::array<std::string, 256> MakeNames() {
  std::array<std::string, 256> names;
  for (int i = 0; i < 256; ++i) {
    const char* const name = NameOrNull(static_cast<WireFormat>(i));
    names[i] = name != nullptr ? name : absl::StrCat("wire(", i, ")");
  }
  return names;
}

}  // namespace

bool IsValidWireFormat(WireFormat wire) { return NameOrNull(wire) != nullptr; }

bool WireFormatTakes(WireFormat wire, DType dtype) {
  switch (wire) {
    case WireFormat::kAsData:
      return true;
    case WireFormat::kF32:
      return dtype == DType::kF16 || dtype == DType::kBF16;
    case WireFormat::kBF16:
    case WireFormat::kQ8_0:
      return dtype == DType::kF32;
  }
  return false;
}

bool IsLossy(WireFormat wire) {
  return wire == WireFormat::kBF16 || wire == WireFormat::kQ8_0;
}

absl::string_view WireFormatName(WireFormat wire) {
  static const auto* const names =
      new std::array<std::string, 256>(MakeNames());
  return (*names)[static_cast<std::uint8_t>(wire)];
}

absl::StatusOr<WireFormat> ParseWireFormat(absl::string_view name) {
  std::string choice;
  for (const WireFormat wire : kAllWireFormats) {
    if (name == NameOrNull(wire)) return wire;
    absl::StrAppend(&choice, choice.empty() ? "" : ", ", NameOrNull(wire));
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown wire format \"", name,
                                                 "\"; choose one of ", choice));
}

std::ostream& operator<<(std::ostream& out, WireFormat wire) {
  return out << WireFormatName(wire);
}

}  // namespace shoal
