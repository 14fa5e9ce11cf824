// SPDX-License-Identifier: Apache-2.0
//
// Makes TCP sockets as comm wants them: non-blocking, close-on-exec, guarded
// against forks (fork_guard.h), and without Nagle's delay on both ends.
//
// Asio opens and accepts sockets without close-on-exec, so this is done with
// the system's own calls; Asio then uses the descriptors.
//
// Thread-safe.

#ifndef SHOAL_COMM_TCP_SOCKET_H_
#define SHOAL_COMM_TCP_SOCKET_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/tcp_address.h"

namespace shoal::internal {

// A socket that listens on `address`; errors name it.
absl::StatusOr<GuardedDescriptor> ListenOn(const SocketAddress& address);

// Takes one connection out of the queue. `UNAVAILABLE` when there is none
// (any more), `RESOURCE_EXHAUSTED` when there are no descriptors left.
absl::StatusOr<GuardedDescriptor> AcceptFrom(int listener);

// A socket that is not connected yet.
absl::StatusOr<GuardedDescriptor> OpenSocket(int family);

// TCP lets a socket connect to itself when the kernel happens to choose the
// port that is being dialled and nobody listens on it.
bool IsConnectedToItself(int descriptor);

// A connection that is being made, without waiting: connects, then writes its
// first bytes. Movable; one thread at a time.
class Connecting {
 public:
  // Errors, here and below, name the address.
  static absl::StatusOr<Connecting> Begin(const SocketAddress& address,
                                          absl::string_view first_bytes);

  // Goes on as far as it can; true once the connection stands and the bytes are
  // written.
  absl::StatusOr<bool> TryFinish();

  // Until then: becomes writable when it is time to try again.
  int descriptor() const { return socket_.get(); }
  const std::string& address() const { return address_; }

  // The connection. Call once, when done.
  GuardedDescriptor Take() { return std::move(socket_); }

 private:
  Connecting(GuardedDescriptor socket, std::string address,
             std::string first_bytes)
      : socket_(std::move(socket)),
        address_(std::move(address)),
        unsent_(std::move(first_bytes)) {}

  GuardedDescriptor socket_;
  std::string address_;
  std::string unsent_;
  bool connected_ = false;
};

// Connects and writes `first_bytes`, blocking, until `deadline` (all deadlines
// here are times of MonotonicNow), and while
// `cancelled`, which is asked several times a second, returns false.
// `DEADLINE_EXCEEDED` at the deadline, `CANCELLED`, else the system's error;
// all name the address.
absl::StatusOr<GuardedDescriptor> ConnectAndSend(
    const SocketAddress& address, absl::string_view first_bytes,
    absl::Time deadline, absl::FunctionRef<bool()> cancelled);

// Ends connections without destroying what is still on its way to the peers:
// shuts down writing, then reads and discards until, for each, the peer has
// closed as well or has acknowledged every byte, or until `deadline`. Then
// closes. A plain close(2) with unread data would reset the connection and
// throw away what had not been sent.
void DrainAndClose(std::vector<GuardedDescriptor> sockets, absl::Time deadline);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_SOCKET_H_
