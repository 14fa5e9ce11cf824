// SPDX-License-Identifier: Apache-2.0
//
// A reduction that the user brings along, for `ReduceOp::kUser`.
//
//   const UserReduction larger_magnitude =
//       [](const void* first, const void* second, void* out,
//          std::int64_t count) { ... };
//   CallOptions options;
//   options.user_reduction = &larger_magnitude;
//   communicator->AllReduce(buffer, ReduceOp::kUser, options);
//
// The function combines `count` elements: out[i] = first[i] op second[i].
// Elements have the size of the call's type, and need not mean what it says: an
// i64 may hold an index and a value. `out` may be `first` or `second`, and
// overlaps them in no other way. The pointers are aligned for the type if the
// caller's buffers are. One vector may come in several pieces, cut between
// elements at any place.
//
// The reduction has to be associative. The order of the operands is that of the
// algorithm, which docs/architecture.md states: where it matters, ask for one
// that keeps the order of the ranks (recursive doubling does; a ring starts at
// another rank for each part of the vector).
//
// All ranks have to pass the same function: a message says that the reduction
// is the user's, and not which one. It is called by the thread that waits for
// the call, or by one that helps it along, and has to return: what it throws,
// or how it crashes, is not caught. It has to stay valid until the call
// completes.

#ifndef SHOAL_COMM_USER_REDUCTION_H_
#define SHOAL_COMM_USER_REDUCTION_H_

#include <cstdint>
#include <functional>

#include "shoal/base/dialect.h"

namespace shoal {

using UserReduction = std::function<void(const void* first, const void* second,
                                         void* out, std::int64_t count)>;

}  // namespace shoal

#endif  // SHOAL_COMM_USER_REDUCTION_H_
