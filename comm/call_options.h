// SPDX-License-Identifier: Apache-2.0
//
// Values; thread-safe.

#ifndef SHOAL_COMM_CALL_OPTIONS_H_
#define SHOAL_COMM_CALL_OPTIONS_H_

#include <optional>

#include "absl/time/time.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/user_reduction.h"

namespace shoal {

// What a single call may choose for itself.
struct CallOptions {
  // Unset: the communicator's operation time-out. Zero or less is refused.
  std::optional<absl::Duration> timeout;
  // Has to be the same on all ranks, like every other argument. An algorithm
  // that the collective does not have is refused.
  Algorithm algorithm = Algorithm::kAuto;
  // The function of `ReduceOp::kUser`, and null with any other. It has to stay
  // valid until the call completes.
  const UserReduction* user_reduction = nullptr;
};

}  // namespace shoal

#endif  // SHOAL_COMM_CALL_OPTIONS_H_
