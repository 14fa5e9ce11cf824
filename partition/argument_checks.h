// SPDX-License-Identifier: Apache-2.0
//
// The checks that every function of this package makes on its arguments, so
// that one mistake is told in the same words everywhere. `caller` names the
// public function that refuses, and opens the message. Each returns OK or
// kInvalidArgument.
#ifndef SHOAL_PARTITION_ARGUMENT_CHECKS_H_
#define SHOAL_PARTITION_ARGUMENT_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

// Refuses a world without ranks: "world_size must be > 0".
absl::Status CheckWorldSize(absl::string_view caller, int world_size);

// Refuses what CheckWorldSize refuses, and a rank outside [0, world_size):
// "rank 4 out of range for world 4".
absl::Status CheckRank(absl::string_view caller, int rank, int world_size);

// Refuses value < 0. `what` names the value in the message.
absl::Status CheckNotNegative(absl::string_view caller, absl::string_view what,
                              int64_t value);

// Refuses value <= 0. `what` names the value in the message.
absl::Status CheckPositive(absl::string_view caller, absl::string_view what,
                           int64_t value);

}  // namespace shoal::internal

#endif  // SHOAL_PARTITION_ARGUMENT_CHECKS_H_
