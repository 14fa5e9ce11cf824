// SPDX-License-Identifier: Apache-2.0
//
// The ways in which a reduction combines the elements of several ranks.
//
// The numeric values travel in message headers and never change.
// Values; thread-safe.

#ifndef SHOAL_COMM_REDUCE_OP_H_
#define SHOAL_COMM_REDUCE_OP_H_

#include <cstdint>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/dtype.h"

namespace shoal {

// Integers wrap around (two's complement). A NaN on any rank makes the minimum
// and the maximum NaN, whatever the order of the ranks; -0 is less than +0.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kProduct = 1,
  kMin = 2,
  kMax = 3,
  // The sum divided by the world size at the end, once. For integers: the
  // wrapped sum, divided with truncation toward zero.
  kAverage = 4,
  // Bit by bit; of integers only.
  kAnd = 5,
  kOr = 6,
  kXor = 7,
  // The function of CallOptions::user_reduction (user_reduction.h).
  kUser = 8,
};

// Those that need no function of the user's.
inline constexpr ReduceOp kAllReduceOps[] = {
    ReduceOp::kSum,     ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
    ReduceOp::kAverage, ReduceOp::kAnd,     ReduceOp::kOr,  ReduceOp::kXor};

// True for the values named in the enumeration; what arrives from a peer is
// checked by it.
bool IsValidReduceOp(ReduceOp op);

// Whether the reduction is one of elements of this type: and, or and xor are
// refused for floating point. Both must be valid.
bool ReduceOpTakes(ReduceOp op, DType dtype);

// "sum", "product", "min", "max", "average", "and", "or", "xor",
// "user"; "op(99)" for a value that is none.
absl::string_view ReduceOpName(ReduceOp op);

// The inverse of `ReduceOpName`, but for "user"; "prod" and "avg", as
// nccl-tests spells them, are taken too. `INVALID_ARGUMENT` names the text and
// the choice.
absl::StatusOr<ReduceOp> ParseReduceOp(absl::string_view name);

std::ostream& operator<<(std::ostream& out, ReduceOp op);

}  // namespace shoal

#endif  // SHOAL_COMM_REDUCE_OP_H_
