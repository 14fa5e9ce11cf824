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
#include "shoal/comm/wire_format.h"

namespace shoal {

// What a single call may choose for itself.
struct CallOptions {
  // Unset: the communicator's operation time-out. Zero or less is refused.
  std::optional<absl::Duration> timeout;
  // Has to be the same on all ranks, like every other argument. An algorithm
  // that the collective does not have is refused.
  Algorithm algorithm = Algorithm::kAuto;
  // How elements travel, of AllReduce, ReduceScatter and Reduce; the same on
  // all ranks. kF32 takes f16 and bf16, kBF16 and kQ8_0 take f32.
  // docs/architecture.md states what is rounded when.
  WireFormat wire = WireFormat::kAsData;
  // The function of `ReduceOp::kUser`, and null with any other. It has to stay
  // valid until the call completes.
  const UserReduction* user_reduction = nullptr;
};

}  // namespace shoal

#endif  // SHOAL_COMM_CALL_OPTIONS_H_
