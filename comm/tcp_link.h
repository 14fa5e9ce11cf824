// SPDX-License-Identifier: Apache-2.0
//
// Links (link.h) over TCP sockets, by Boost.Asio.
//
// One try is one system call: a gather write or a scatter read on a
// non-blocking socket, never raising SIGPIPE. At most 64 pieces are moved in
// one try.
//
// The links of a communicator form a group, which ends them in good order.
// When a link is destroyed, its sending side is shut down at once, and the
// socket waits in the group. When the last link and the last other owner of the
// group are gone, the group drains all of its sockets together (tcp_socket.h)
// and closes them. If the job has failed by then, it closes them without
// waiting.
//
// Threads: MakeLink and the destruction of links from any thread; each link as
// link.h says.

#ifndef SHOAL_COMM_TCP_LINK_H_
#define SHOAL_COMM_TCP_LINK_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/link.h"

namespace shoal::internal {

struct TcpLinkGroupOptions {
  // The bound for draining all sockets.
  absl::Duration close_timeout = absl::Seconds(2);
  // Called once, when the first link is about to be closed. May be empty.
  std::function<void()> on_first_close;
  // Whether closing has to wait for the peers; asked once, at the end. Empty:
  // yes.
  std::function<bool()> should_drain;
};

class TcpLinkGroup : public std::enable_shared_from_this<TcpLinkGroup> {
 public:
  // `RESOURCE_EXHAUSTED` when the process has no descriptor left.
  static absl::StatusOr<std::shared_ptr<TcpLinkGroup>> Create(
      TcpLinkGroupOptions options);
  ~TcpLinkGroup();

  // A link over a connected, non-blocking socket.
  absl::StatusOr<std::unique_ptr<Link>> MakeLink(GuardedDescriptor socket);

 private:
  class TcpLink;
  struct Impl;

  explicit TcpLinkGroup(std::unique_ptr<Impl> impl);
  void TakeBack(GuardedDescriptor socket);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_LINK_H_
