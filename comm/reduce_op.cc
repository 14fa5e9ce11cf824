// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/reduce_op.h"

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
const char* NameOrNull(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kAnd:
      return "and";
    case ReduceOp::kOr:
      return "or";
    case ReduceOp::kXor:
      return "xor";
    case ReduceOp::kUser:
      return "user";
  }
  return nullptr;
}

// What a view of any value's name refers to.
std::array<std::string, 256> MakeNames() {
  std::array<std::string, 256> names;
  for (int i = 0; i < 256; ++i) {
    const char* const name = NameOrNull(static_cast<ReduceOp>(i));
    names[i] = name != nullptr ? name : absl::StrCat("op(", i, ")");
  }
  return names;
}

}  // namespace

bool IsValidReduceOp(ReduceOp op) { return NameOrNull(op) != nullptr; }

bool ReduceOpTakes(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kMax:
    case ReduceOp::kAverage:
    case ReduceOp::kUser:
      return true;
    case ReduceOp::kAnd:
    case ReduceOp::kOr:
    case ReduceOp::kXor:
      return !IsFloatingPoint(dtype);
  }
  return false;
}

absl::string_view ReduceOpName(ReduceOp op) {
  static const auto* const names =
      new std::array<std::string, 256>(MakeNames());
  return (*names)[static_cast<std::uint8_t>(op)];
}

absl::StatusOr<ReduceOp> ParseReduceOp(absl::string_view name) {
  if (name == "prod") return ReduceOp::kProduct;
  if (name == "avg") return ReduceOp::kAverage;
  std::string choice;
  for (const ReduceOp op : kAllReduceOps) {
    if (name == NameOrNull(op)) return op;
    absl::StrAppend(&choice, choice.empty() ? "" : ", ", NameOrNull(op));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown reduction \"", name, "\"; choose one of ", choice));
}

std::ostream& operator<<(std::ostream& out, ReduceOp op) {
  return out << ReduceOpName(op);
}

}  // namespace shoal
