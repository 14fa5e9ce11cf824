// SPDX-License-Identifier: Apache-2.0
//
// Where a communicator's point-to-point links come from.
//
// There is one link for each ordered pair of ranks, opened by the sender when
// it first sends to that receiver, so that two ranks which begin at the same
// time do not cross. The implementation connects and accepts (TCP), or makes
// pairs in memory. Nothing here waits.
//
// Threads: everything belongs to the communicator's driving thread, one at a
// time. The implementation adds accepted links from whatever thread it has, and
// then notifies the waker.

#ifndef SHOAL_COMM_POINT_TO_POINT_LINKS_H_
#define SHOAL_COMM_POINT_TO_POINT_LINKS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/link.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

// A link that is being opened. Destroying it gives up.
class LinkOpening {
 public:
  virtual ~LinkOpening() = default;

  // The link; null while it is not there yet. An error means that the peer
  // cannot be reached, and names its address. Not called again after either.
  virtual absl::StatusOr<std::unique_ptr<Link>> TryFinish() = 0;

  // For poll(2): writable when it is time for `TryFinish`. Valid only after a
  // try in vain, until the next.
  virtual int descriptor() const = 0;
};

class PointToPointLinks {
 public:
  virtual ~PointToPointLinks() = default;

  // Notified when a link was accepted. Called once, before the other methods.
  virtual void SetWaker(std::shared_ptr<Waker> waker) = 0;

  // Begins to open the link on which this rank sends to `peer`.
  virtual std::unique_ptr<LinkOpening> OpenOutgoing(int peer) = 0;

  // True when `TakeIncoming` would return something. One atomic load.
  virtual bool HasIncoming() const = 0;

  // The links that peers have opened to send on, each once, with the peer.
  virtual std::vector<std::pair<int, std::unique_ptr<Link>>> TakeIncoming() = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_POINT_TO_POINT_LINKS_H_
