// SPDX-License-Identifier: Apache-2.0
//
// What a collective costs on paper: the time of its longest chain of messages
// and reductions.
//
// The model is the usual one of latency and bandwidth (Hockney 1994; used for
// collectives by Thakur, Rabenseifner and Gropp 2005), applied to schedules: a
// message of b bytes takes latency + b * seconds_per_byte, during which the
// sender sends to nobody else and the receiver receives from nobody else;
// sending and receiving go on side by side. Reducing b bytes takes
// b * reduce_seconds_per_byte after they have come. Copies are free. A message
// goes in one piece: what slices gain is not counted. A rank takes its sends,
// and its receives, in the order of its list.
//
// It is for comparing algorithms in worlds that are not at hand; nothing at run
// time depends on it.
// Pure functions; thread-safe.

#ifndef SHOAL_COMM_COST_MODEL_H_
#define SHOAL_COMM_COST_MODEL_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {

struct LinkCost {
  double latency_seconds = 0;
  double seconds_per_byte = 0;
  double reduce_seconds_per_byte = 0;
};

// The time in seconds from the common start to the end of the last rank's last
// step. `schedules[r]` is rank r's. `FAILED_PRECONDITION` when the schedules
// never end, or only if a rank takes its messages in another order than that
// of its list.
absl::StatusOr<double> PriceSchedules(absl::Span<const Schedule> schedules,
                                      const LinkCost& cost);

// The same for what `BuildSchedule` makes of `signature`, out of place.
absl::StatusOr<double> PriceCollective(const CallSignature& signature,
                                       int world_size, const LinkCost& cost);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_COST_MODEL_H_
