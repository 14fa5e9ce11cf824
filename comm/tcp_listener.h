// SPDX-License-Identifier: Apache-2.0
//
// A listening TCP socket, bound before the world that joins through it exists.
//
// A launcher binds "127.0.0.1:0", tells every rank the resulting `address()`,
// and lets rank 0 inherit the descriptor. So nobody has to guess a free port,
// and a rank that starts before rank 0 waits in the listener's queue.
//
// The descriptor is closed when the listener is destroyed, in every forked
// child, and in every program that is executed. To hand it to a program:
//
//   int descriptor = std::move(listener).ReleaseDescriptor();
//   ... dup2(descriptor, n) in the child (posix_spawn's adddup2), which clears
//   close-on-exec for n; SHOAL_LISTEN_FD=n in its environment ...
//   close(descriptor);
//
// Movable. Threads: one at a time.

#ifndef SHOAL_COMM_TCP_LISTENER_H_
#define SHOAL_COMM_TCP_LISTENER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal {

class TcpListener {
 public:
  // Listens on "host:port": a name, an IPv4 address, or an IPv6 address in
  // brackets, also with a zone ("[fe80::1%eth0]:29500"). Port 0 takes a free
  // one. "0.0.0.0" and "[::]" are all interfaces; "[::]" takes IPv4 too.
  // Errors name the address: `INVALID_ARGUMENT` for a text that is none,
  // `NOT_FOUND` for a name without an address, `ALREADY_EXISTS` for an address
  // in use, `PERMISSION_DENIED`, `UNAVAILABLE` for an address that is not this
  // machine's, `RESOURCE_EXHAUSTED` without descriptors.
  static absl::StatusOr<TcpListener> Bind(absl::string_view address);

  // Takes over a socket that listens already, such as an inherited one.
  // `INVALID_ARGUMENT`, and the descriptor stays the caller's, if it is none.
  static absl::StatusOr<TcpListener> FromDescriptor(int descriptor);

  TcpListener(TcpListener&& other) noexcept;
  TcpListener& operator=(TcpListener&& other) noexcept;
  ~TcpListener();

  // "127.0.0.1:40123", "[::1]:40123": with the real port.
  const std::string& address() const { return address_; }

  // For poll(2); owned by the listener.
  int descriptor() const { return descriptor_; }

  // Gives the descriptor up: the caller closes it. It stays close-on-exec, and
  // is no longer closed in forked children.
  [[nodiscard]] int ReleaseDescriptor() &&;

 private:
  TcpListener(int descriptor, std::string address);

  int descriptor_;  // -1 once moved from or released
  std::string address_;
};

}  // namespace shoal

#endif  // SHOAL_COMM_TCP_LISTENER_H_
