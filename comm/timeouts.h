// SPDX-License-Identifier: Apache-2.0
//
// How long the ranks of a world wait, and for what. Nothing in comm waits
// without one of these bounds.
//
// There is not one time-out but several, because what is short for an
// operation is long for a heartbeat, and what is long for an operation is short
// for a cluster that is still starting.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_TIMEOUTS_H_
#define SHOAL_COMM_TIMEOUTS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "shoal/base/dialect.h"

namespace shoal {

// Two minutes: schedulers start the ranks of a job at different times, and
// machines pull images and load programs before the first of them joins.
inline constexpr absl::Duration kDefaultJoinTimeout = absl::Seconds(120);
// A minute: longer than any transfer of a step, shorter than patience. A rank
// that loads a checkpoint while others wait in a collective wants more.
inline constexpr absl::Duration kDefaultOperationTimeout = absl::Seconds(60);
// The reason of a death travels a few hops; on a busy machine each costs some
// tens of milliseconds.
inline constexpr absl::Duration kDefaultGrace = absl::Milliseconds(200);
// A rank that answers at all does so from a thread that does nothing else.
inline constexpr absl::Duration kDefaultAnswerWindow = absl::Milliseconds(500);
// What is left to send at the end is at most what the kernel's buffers hold.
inline constexpr absl::Duration kDefaultCloseTimeout = absl::Seconds(2);

struct Timeouts {
  // From the call that joins a world to its return with all ranks there.
  absl::Duration join = kDefaultJoinTimeout;
  // For each operation, unless the call gives its own.
  absl::Duration operation = kDefaultOperationTimeout;
  // After a connection has ended: for the reason to arrive by another way, so
  // that the rank that died is named, and not its neighbour that fell over it.
  absl::Duration grace = kDefaultGrace;
  // After a time-out: for all ranks to say what they are doing.
  absl::Duration answer_window = kDefaultAnswerWindow;
  // When a communicator is destroyed: for the last bytes to reach the peers.
  absl::Duration close = kDefaultCloseTimeout;
};

// `INVALID_ARGUMENT`, naming the member and its value, unless all are more than
// zero. Infinite ones are allowed for joining and operations only.
absl::Status CheckTimeouts(const Timeouts& timeouts);

}  // namespace shoal

#endif  // SHOAL_COMM_TIMEOUTS_H_
