// SPDX-License-Identifier: Apache-2.0
//
// Where a communicator's point-to-point links come from.
//
// There is one link for each ordered pair of ranks, opened by the sender when
// it first sends to that receiver, so that two ranks which begin at the same
// time do not cross. The implementation connects and accepts (TCP), or makes
// pairs in memory.
//
// Threads: the three methods that take or give links belong to the
// communicator's thread. The implementation adds accepted links from whatever
// thread it has, and then notifies the waker.

#ifndef SHOAL_COMM_POINT_TO_POINT_LINKS_H_
#define SHOAL_COMM_POINT_TO_POINT_LINKS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/link.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

class PointToPointLinks {
 public:
  virtual ~PointToPointLinks() = default;

  // Notified when a link was accepted. Called once, before the other methods.
  virtual void SetWaker(std::shared_ptr<Waker> waker) = 0;

  // Opens the link on which this rank sends to `peer`; waits for the peer, at
  // most for `timeout`, and not once the job has failed. `DEADLINE_EXCEEDED`
  // after the time-out; any other error means that the peer cannot be reached.
  // Errors name the peer's address.
  virtual absl::StatusOr<std::unique_ptr<Link>> OpenOutgoing(
      int peer, absl::Duration timeout) = 0;

  // True when `TakeIncoming` would return something. One atomic load.
  virtual bool HasIncoming() const = 0;

  // The links that peers have opened to send on, each once, with the peer.
  virtual std::vector<std::pair<int, std::unique_ptr<Link>>> TakeIncoming() = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_POINT_TO_POINT_LINKS_H_
