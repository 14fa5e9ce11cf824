// SPDX-License-Identifier: Apache-2.0
//
// The bounds of point_to_point.h.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_POINT_TO_POINT_OPTIONS_H_
#define SHOAL_COMM_POINT_TO_POINT_OPTIONS_H_

#include <cstddef>

#include "shoal/base/dialect.h"

namespace shoal::internal {

// The same on all ranks: a receiver takes a message beyond them for corrupt.
struct PointToPointOptions {
  // The largest payload that goes without being asked for. To ask costs a round
  // trip, which is most of the time of messages below some 100 KiB.
  std::size_t eager_bytes = 256 * 1024;
  // How much a sender may have on its way to one receiver, or waiting there for
  // its Recv, without being asked for it. A message counts with its header.
  std::size_t credit_bytes = 1024 * 1024;
  // How many messages a sender may have announced to one receiver and not been
  // asked for; further Sends to that receiver wait for their turn.
  std::size_t announced_messages = 1024;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_POINT_TO_POINT_OPTIONS_H_
