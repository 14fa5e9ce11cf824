// SPDX-License-Identifier: Apache-2.0
//
// Proves that the schedules of all ranks together do what a collective has to.
//
// What is shown for one collective, world, count and link capacity:
//
//   Form       Every step stays inside its buffers and the world, nothing
//              writes to the input, the k-th send to a rank is as long as the
//              k-th receive there.
//   Order      `depends_on`, as the engine reads it, orders every two steps of
//   a
//              rank that touch the same memory (one writing it). The conflicts
//              are computed anew here, on memory as it lies in place or out of
//              place, and not by the names of buffers. Hence the data do not
//              depend on the order of events, and one run shows them.
//   Progress   With links that hold so many items no order of events
//              ends in a deadlock.
//   Data       Each element of each rank's result is every rank's operand
//              exactly once, in the order that docs/architecture.md states for
//              the algorithm, and completed exactly once. For gathers and
//              broadcasts it is the one operand that belongs there.
//   Barrier    Every rank has certainly entered before any rank leaves.
//
// For tests. Pure functions; thread-safe.

#ifndef SHOAL_COMM_SCHEDULE_VERIFIER_H_
#define SHOAL_COMM_SCHEDULE_VERIFIER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {

inline constexpr std::int64_t kUnlimitedLink =
    std::numeric_limits<std::int64_t>::max();

// `schedules[r]` is the schedule of rank r, which runs in place if
// `in_place[r]`. Runs once for each of `link_capacities`, whose items are
// elements and messages' headers; each is at least 1. The error is `INTERNAL`
// and names rank, step and element.
absl::Status VerifySchedules(absl::Span<const Schedule> schedules,
                             const std::vector<bool>& in_place,
                             absl::Span<const std::int64_t> link_capacities);

// The same for what `BuildSchedule` makes of `signature`.
absl::Status VerifyCollective(const CallSignature& signature, int world_size,
                              bool in_place,
                              absl::Span<const std::int64_t> link_capacities);

// With `Call::counts`, which may be another list on each rank.
absl::Status VerifyCollective(
    const CallSignature& signature,
    absl::FunctionRef<std::vector<std::int64_t>(int)> counts_of, int world_size,
    bool in_place, absl::Span<const std::int64_t> link_capacities);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SCHEDULE_VERIFIER_H_
