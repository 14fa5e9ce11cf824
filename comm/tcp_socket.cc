// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/tcp_address.h"

namespace shoal::internal {
namespace {

// How often a blocking connect looks whether it has been cancelled.
constexpr absl::Duration kCancellationInterval = absl::Milliseconds(20);
// How often a drain asks the kernel for what is not acknowledged yet. No event
// tells of it.
constexpr absl::Duration kAcknowledgementInterval = absl::Milliseconds(2);

void SetOption(int descriptor, int level, int name) {
  const int on = 1;
  setsockopt(descriptor, level, name, &on, sizeof on);
}

absl::StatusOr<GuardedDescriptor> NewSocket(int family) {
  GuardedDescriptor socket = GuardedDescriptor::Open([family] {
    return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  });
  if (!socket.valid()) return SocketError(errno, "cannot open a socket");
  return socket;
}

// Milliseconds for poll(2), rounded up, so that it does not spin at the end.
int PollTimeout(absl::Duration duration) {
  const absl::Duration bounded =
      std::clamp(duration, absl::ZeroDuration(), absl::Seconds(60));
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(bounded, absl::Milliseconds(1))));
}

// Waits until the socket is ready for `events`.
absl::Status AwaitReady(int socket, short events, absl::string_view name,
                        absl::Time deadline,
                        absl::FunctionRef<bool()> cancelled) {
  while (true) {
    if (cancelled()) {
      return absl::CancelledError(absl::StrCat("connecting to ", name));
    }
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("connecting to ", name, " took too long"));
    }
    pollfd entry = {socket, events, 0};
    const int ready =
        poll(&entry, 1, PollTimeout(std::min(left, kCancellationInterval)));
    if (ready > 0) return absl::OkStatus();
  }
}

// What one step of a drain found out about a connection.
enum class DrainState { kOpen, kOver };

DrainState DrainOnce(int socket) {
  char discarded[16 * 1024];
  // Bounded, so that a peer that never stops sending gets no hold of us.
  for (int i = 0; i < 64; ++i) {
    const ssize_t got = recv(socket, discarded, sizeof discarded, 0);
    if (got > 0) continue;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    return DrainState::kOver;  // closed by the peer, or broken
  }
  // Counts the end mark of the stream too, so that 0 means: all of it, up to
  // the end, is in the peer's kernel, where no reset takes it away any more.
  int unacknowledged = 0;
  if (ioctl(socket, SIOCOUTQ, &unacknowledged) != 0) return DrainState::kOver;
  return unacknowledged == 0 ? DrainState::kOver : DrainState::kOpen;
}

}  // namespace

absl::StatusOr<GuardedDescriptor> ListenOn(const SocketAddress& address) {
  SHOAL_ASSIGN_OR_RETURN(GuardedDescriptor socket, NewSocket(address.family()));
  // The port of a job that has just ended may still have connections in
  // TIME_WAIT. Two listeners on one port stay impossible.
  SetOption(socket.get(), SOL_SOCKET, SO_REUSEADDR);
  if (address.family() == AF_INET6) {
    const int only = address.is_any() ? 0 : 1;
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  }
  if (bind(socket.get(), address.get(), address.length) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return SocketError(errno,
                       absl::StrCat("cannot listen on ", address.ToString()));
  }
  return socket;
}

absl::StatusOr<GuardedDescriptor> AcceptFrom(int listener) {
  GuardedDescriptor socket = GuardedDescriptor::Open([listener] {
    return accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  });
  if (!socket.valid()) return SocketError(errno, "cannot accept a connection");
  SetOption(socket.get(), IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

absl::StatusOr<GuardedDescriptor> OpenSocket(int family) {
  SHOAL_ASSIGN_OR_RETURN(GuardedDescriptor socket, NewSocket(family));
  SetOption(socket.get(), IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

bool IsConnectedToItself(int descriptor) {
  const absl::StatusOr<SocketAddress> local = LocalAddress(descriptor);
  const absl::StatusOr<SocketAddress> peer = PeerAddress(descriptor);
  return local.ok() && peer.ok() && local->ToString() == peer->ToString();
}

absl::StatusOr<Connecting> Connecting::Begin(const SocketAddress& address,
                                             absl::string_view first_bytes) {
  std::string name = address.ToString();
  SHOAL_ASSIGN_OR_RETURN(GuardedDescriptor socket,
                         OpenSocket(address.family()));
  if (connect(socket.get(), address.get(), address.length) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    return SocketError(errno, absl::StrCat("cannot connect to ", name));
  }
  return Connecting(std::move(socket), std::move(name),
                    std::string(first_bytes));
}

absl::StatusOr<bool> Connecting::TryFinish() {
  if (!connected_) {
    pollfd entry = {socket_.get(), POLLOUT, 0};
    if (poll(&entry, 1, 0) <= 0) return false;
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0 && IsConnectedToItself(socket_.get())) error = ECONNREFUSED;
    if (error != 0) {
      return SocketError(error, absl::StrCat("cannot connect to ", address_));
    }
    connected_ = true;
  }
  while (!unsent_.empty()) {
    const ssize_t sent =
        send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      unsent_.erase(0, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      return SocketError(errno, absl::StrCat("cannot write to ", address_));
    }
  }
  return true;
}

absl::StatusOr<GuardedDescriptor> ConnectAndSend(
    const SocketAddress& address, absl::string_view first_bytes,
    absl::Time deadline, absl::FunctionRef<bool()> cancelled) {
  SHOAL_ASSIGN_OR_RETURN(Connecting connecting,
                         Connecting::Begin(address, first_bytes));
  while (true) {
    SHOAL_ASSIGN_OR_RETURN(const bool done, connecting.TryFinish());
    if (done) return connecting.Take();
    SHOAL_RETURN_IF_ERROR(AwaitReady(connecting.descriptor(), POLLOUT,
                                     connecting.address(), deadline,
                                     cancelled));
  }
}

void DrainAndClose(std::vector<GuardedDescriptor> sockets,
                   absl::Time deadline) {
  for (const GuardedDescriptor& socket : sockets) {
    shutdown(socket.get(), SHUT_WR);
  }
  while (true) {
    sockets.erase(std::remove_if(sockets.begin(), sockets.end(),
                                 [](const GuardedDescriptor& socket) {
                                   return DrainOnce(socket.get()) ==
                                          DrainState::kOver;
                                 }),
                  sockets.end());
    const absl::Duration left = deadline - MonotonicNow();
    if (sockets.empty() || left <= absl::ZeroDuration()) return;
    std::vector<pollfd> entries;
    for (const GuardedDescriptor& socket : sockets) {
      entries.push_back({socket.get(), POLLIN, 0});
    }
    poll(entries.data(), entries.size(),
         PollTimeout(std::min(left, kAcknowledgementInterval)));
  }
}

}  // namespace shoal::internal
