// SPDX-License-Identifier: Apache-2.0
//
// The part of every rank but 0 in forming a world; see bootstrap.h.
//
// Thread-safe.

#ifndef SHOAL_COMM_BOOTSTRAP_MEMBER_H_
#define SHOAL_COMM_BOOTSTRAP_MEMBER_H_

#include "absl/status/statusor.h"
#include "shoal/comm/joined_world.h"

namespace shoal::internal {

absl::StatusOr<JoinedWorld> BootstrapAsMember(BootstrapOptions options);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_BOOTSTRAP_MEMBER_H_
