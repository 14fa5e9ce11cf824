// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal::internal {
namespace {

absl::Status BadAddress(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no address: ", why,
                   "; write host:port, such as 10.0.0.7:29500 or [::1]:29500"));
}

// Both of these view the same bytes, so a copy in and out keeps to the
// language.
sockaddr_in AsIpv4(const SocketAddress& address) {
  sockaddr_in v4;
  std::memcpy(&v4, &address.storage, sizeof v4);
  return v4;
}

sockaddr_in6 AsIpv6(const SocketAddress& address) {
  sockaddr_in6 v6;
  std::memcpy(&v6, &address.storage, sizeof v6);
  return v6;
}

}  // namespace

std::string HostPort::ToString() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  HostPort result;
  absl::string_view port;
  if (absl::StartsWith(text, "[")) {
    const std::size_t end = text.find(']');
    if (end == absl::string_view::npos) {
      return BadAddress(text, "the bracket is not closed");
    }
    result.host = std::string(text.substr(1, end - 1));
    port = text.substr(end + 1);
  } else {
    const std::size_t colon = text.find(':');
    if (colon != text.rfind(':')) {
      return BadAddress(text, "an IPv6 address goes in brackets");
    }
    result.host = std::string(text.substr(0, colon));
    port = colon == absl::string_view::npos ? "" : text.substr(colon);
  }
  if (result.host.empty()) return BadAddress(text, "the host is missing");
  if (!absl::StartsWith(port, ":") || port.size() == 1) {
    return BadAddress(text, "the port is missing");
  }
  port.remove_prefix(1);
  if (port.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(port, &result.port) || result.port > 65535) {
    return BadAddress(text, "the port is not in 0..65535");
  }
  return result;
}

int SocketAddress::port() const {
  return ntohs(family() == AF_INET ? AsIpv4(*this).sin_port
                                   : AsIpv6(*this).sin6_port);
}

void SocketAddress::set_port(int port) {
  const in_port_t value = htons(static_cast<in_port_t>(port));
  const std::size_t offset = family() == AF_INET
                                 ? offsetof(sockaddr_in, sin_port)
                                 : offsetof(sockaddr_in6, sin6_port);
  std::memcpy(reinterpret_cast<char*>(&storage) + offset, &value, sizeof value);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    return (ntohl(AsIpv4(*this).sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  const in6_addr v6 = AsIpv6(*this).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

bool SocketAddress::is_any() const {
  if (family() == AF_INET) return AsIpv4(*this).sin_addr.s_addr == INADDR_ANY;
  const in6_addr v6 = AsIpv6(*this).sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(&v6);
}

std::string SocketAddress::ToString() const {
  SocketAddress shown = *this;
  if (family() == AF_INET6) {
    const in6_addr v6 = AsIpv6(*this).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      sockaddr_in v4 = {};
      v4.sin_family = AF_INET;
      v4.sin_port = AsIpv6(*this).sin6_port;
      std::memcpy(&v4.sin_addr, &v6.s6_addr[12], sizeof v4.sin_addr);
      shown = SocketAddress();
      std::memcpy(&shown.storage, &v4, sizeof v4);
      shown.length = sizeof v4;
    }
  }
  char host[NI_MAXHOST];
  if (getnameinfo(shown.get(), shown.length, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return absl::StrCat("an address of family ", family());
  }
  return HostPort{host, port()}.ToString();
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 &freeaddrinfo);
  std::vector<SocketAddress> result;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    SocketAddress socket_address;
    std::memcpy(&socket_address.storage, one->ai_addr, one->ai_addrlen);
    socket_address.length = one->ai_addrlen;
    result.push_back(socket_address);
  }
  if (error != 0 || result.empty()) {
    return absl::NotFoundError(
        absl::StrCat("host \"", address.host, "\" has no address: ",
                     error != 0 ? gai_strerror(error) : "no IPv4 or IPv6"));
  }
  return result;
}

absl::StatusOr<SocketAddress> LocalAddress(int descriptor) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address.storage),
                  &address.length) != 0) {
    return SocketError(errno, "local address of a socket");
  }
  return address;
}

absl::StatusOr<SocketAddress> PeerAddress(int descriptor) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address.storage),
                  &address.length) != 0) {
    return SocketError(errno, "peer address of a socket");
  }
  return address;
}

absl::Status SocketError(int error, absl::string_view what) {
  // std::strerror is not thread-safe.
  const std::string message =
      absl::StrCat(what, ": ", std::generic_category().message(error));
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace shoal::internal
