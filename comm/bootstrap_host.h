// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's part in forming a world; see bootstrap.h.
//
// Thread-safe.

#ifndef SHOAL_COMM_BOOTSTRAP_HOST_H_
#define SHOAL_COMM_BOOTSTRAP_HOST_H_

#include "absl/status/statusor.h"
#include "shoal/comm/joined_world.h"

namespace shoal::internal {

absl::StatusOr<JoinedWorld> BootstrapAsHost(BootstrapOptions options);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_BOOTSTRAP_HOST_H_
