// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal {

using ::shoal::internal::GuardedDescriptor;
using ::shoal::internal::SocketAddress;

absl::StatusOr<TcpListener> TcpListener::Bind(absl::string_view address) {
  SHOAL_ASSIGN_OR_RETURN(const internal::HostPort host_port,
                         internal::ParseHostPort(address));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<SocketAddress> candidates,
                         internal::Resolve(host_port));
  absl::Status error;
  for (const SocketAddress& candidate : candidates) {
    absl::StatusOr<GuardedDescriptor> socket = internal::ListenOn(candidate);
    if (socket.ok()) {
      SHOAL_ASSIGN_OR_RETURN(const SocketAddress bound,
                             internal::LocalAddress(socket->get()));
      return TcpListener(socket->Lend(), bound.ToString());
    }
    error = socket.status();
    // The other addresses of the name are no better when the port is taken.
    if (absl::IsAlreadyExists(error)) break;
  }
  return error;
}

absl::StatusOr<TcpListener> TcpListener::FromDescriptor(int descriptor) {
  const auto refuse = [descriptor](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "descriptor ", descriptor, " is no listening TCP socket: ", why));
  };
  int listening = 0;
  socklen_t length = sizeof listening;
  if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) !=
      0) {
    return refuse(internal::SocketError(errno, "getsockopt").message());
  }
  if (listening == 0) return refuse("it does not listen");
  SHOAL_ASSIGN_OR_RETURN(const SocketAddress bound,
                         internal::LocalAddress(descriptor));
  if (bound.family() != AF_INET && bound.family() != AF_INET6) {
    return refuse("it is of another family");
  }
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) {
    return refuse(internal::SocketError(errno, "fcntl").message());
  }
  GuardedDescriptor guarded = GuardedDescriptor::Adopt(descriptor);
  if (!guarded.valid()) {
    return refuse(internal::SocketError(errno, "fcntl").message());
  }
  return TcpListener(guarded.Lend(), bound.ToString());
}

TcpListener::TcpListener(int descriptor, std::string address)
    : descriptor_(descriptor), address_(std::move(address)) {}

TcpListener::TcpListener(TcpListener&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      address_(std::move(other.address_)) {}

TcpListener& TcpListener::operator=(TcpListener&& other) noexcept {
  if (this != &other) {
    GuardedDescriptor::Reclaim(descriptor_).Close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    address_ = std::move(other.address_);
  }
  return *this;
}

TcpListener::~TcpListener() { GuardedDescriptor::Reclaim(descriptor_).Close(); }

int TcpListener::ReleaseDescriptor() && {
  return GuardedDescriptor::Reclaim(std::exchange(descriptor_, -1)).Release();
}

}  // namespace shoal
