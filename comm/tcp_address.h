// SPDX-License-Identifier: Apache-2.0
//
// Addresses of TCP sockets: parsing, resolving, comparing, printing.
//
// The textual form is "host:port", with IPv6 addresses in brackets:
// "node7:29500", "10.0.0.7:29500", "[::1]:29500", "[fe80::1%eth0]:29500".
//
// Values; thread-safe.

#ifndef SHOAL_COMM_TCP_ADDRESS_H_
#define SHOAL_COMM_TCP_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;      // in [0, 65535]

  // With brackets where they are needed.
  std::string ToString() const;
};

// `INVALID_ARGUMENT` names the text and what is wrong with it.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// An IPv4 or IPv6 address with its port, as the system's calls take it.
struct SocketAddress {
  struct sockaddr_storage storage = {};
  socklen_t length = 0;

  const struct sockaddr* get() const {
    return reinterpret_cast<const struct sockaddr*>(&storage);
  }
  int family() const { return storage.ss_family; }
  int port() const;
  void set_port(int port);
  bool is_loopback() const;
  // 0.0.0.0 and [::].
  bool is_any() const;

  // Numeric: "127.0.0.1:29500", "[fe80::1%eth0]:29500". IPv4 addresses in the
  // clothes of IPv6 are printed as IPv4.
  std::string ToString() const;
};

// All addresses of a host, in the order in which they should be tried. Blocks
// while a name server is asked; numeric addresses return at once.
// `NOT_FOUND` names the host and the resolver's reason.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const HostPort& address);

// The two ends of a connected socket. An error names the system's reason.
absl::StatusOr<SocketAddress> LocalAddress(int descriptor);
absl::StatusOr<SocketAddress> PeerAddress(int descriptor);

// "`what`: Address already in use", with the code that fits the error:
// `ALREADY_EXISTS` for an address in use, `PERMISSION_DENIED`,
// `RESOURCE_EXHAUSTED`, else `UNAVAILABLE`.
absl::Status SocketError(int error, absl::string_view what);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_ADDRESS_H_
