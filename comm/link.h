// SPDX-License-Identifier: Apache-2.0
//
// A `Link` moves bytes in order to and from one peer, without blocking.
//
// It is all that the engine knows of the world outside: TCP sockets, the
// in-memory pair of tests, and later others implement it. Neither call ever
// waits. A link that has reported `kEnded` in a direction reports it for ever
// in that direction.
//
// Threads: one thread at a time on each end.

#ifndef SHOAL_COMM_LINK_H_
#define SHOAL_COMM_LINK_H_

#include <sys/uio.h>

#include <cstddef>
#include <string>

#include "absl/types/span.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

enum class LinkState {
  kOk,          // some bytes moved (or none were asked for)
  kWouldBlock,  // nothing can move now
  kEnded,       // the peer has closed, or the connection is broken
};

struct LinkResult {
  LinkState state = LinkState::kOk;
  std::size_t bytes = 0;  // moved; more than 0 only with kOk
};

class Link {
 public:
  virtual ~Link() = default;

  // Writes as much of the gather list as fits, in order.
  virtual LinkResult TryWrite(absl::Span<const struct iovec> pieces) = 0;

  // Reads what is there into the scatter list, in order, as far as it goes.
  virtual LinkResult TryRead(absl::Span<const struct iovec> pieces) = 0;

  // Tells the peer that nothing more will be written; reading goes on.
  virtual void ShutdownWrite() = 0;

  // Whether the peer writes no more, though there may be something to read yet.
  // False where a link cannot know that without reading.
  virtual bool PeerHasEnded() const { return false; }

  // For poll(2); -1 for a link that is woken in another way.
  virtual int descriptor() const = 0;

  // Why the link ended, in the operating system's words; empty if it has not,
  // or ended in good order.
  virtual std::string end_reason() const = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_LINK_H_
