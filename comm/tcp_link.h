// SPDX-License-Identifier: Apache-2.0
//
// Links (link.h) over TCP sockets, by Boost.Asio.
//
// One try is one system call: a gather write or a scatter read on a
// non-blocking socket, never raising SIGPIPE. At most 64 pieces are moved in
// one try.
//
// Destroying a link closes its socket. To end it without destroying what is
// still on its way, drain it first (link_drain.h).
//
// Threads: `TcpLinkFactory` from any thread; each link as link.h says.

#ifndef SHOAL_COMM_TCP_LINK_H_
#define SHOAL_COMM_TCP_LINK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/link.h"

namespace shoal::internal {

// Cheap to copy. The links of one factory and its copies share the three
// descriptors that Asio takes; they may outlive it.
class TcpLinkFactory {
 public:
  // `RESOURCE_EXHAUSTED` when the process has no descriptor left.
  static absl::StatusOr<TcpLinkFactory> Create();

  // A link over a connected, non-blocking socket, whose send buffer becomes
  // small where both ends are on one machine.
  absl::StatusOr<std::unique_ptr<Link>> Make(GuardedDescriptor socket) const;

 private:
  struct Impl;
  explicit TcpLinkFactory(std::shared_ptr<const Impl> impl);

  std::shared_ptr<const Impl> impl_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_LINK_H_
