// SPDX-License-Identifier: Apache-2.0
//
// Connected TCP sockets and ports over loopback, for tests.

#ifndef SHOAL_COMM_LOOPBACK_SOCKETS_H_
#define SHOAL_COMM_LOOPBACK_SOCKETS_H_

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal::internal {

// Waits until poll(2) reports one of `events`; false after a minute.
inline bool AwaitEvents(int descriptor, short events) {
  pollfd entry = {descriptor, events, 0};
  return poll(&entry, 1, 60000) == 1;
}

inline bool IsReadable(int descriptor) {
  pollfd entry = {descriptor, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

// A socket that is connected to `address` and has sent `first_bytes`.
inline GuardedDescriptor DialWith(const SocketAddress& address,
                                  absl::string_view first_bytes) {
  return ConnectAndSend(address, first_bytes,
                        MonotonicNow() + absl::Seconds(60),
                        [] { return false; })
      .value();
}

inline GuardedDescriptor ListenOnLoopback() {
  return ListenOn(Resolve({"127.0.0.1", 0})->front()).value();
}

// Waits for the next connection to `listener`.
inline GuardedDescriptor AwaitConnection(int listener) {
  AwaitEvents(listener, POLLIN);
  return AcceptFrom(listener).value();
}

struct SocketPair {
  GuardedDescriptor dialled;
  GuardedDescriptor accepted;
};

inline SocketPair ConnectOverLoopback(absl::string_view first_bytes = "") {
  const GuardedDescriptor listener = ListenOnLoopback();
  SocketPair pair;
  pair.dialled = DialWith(*LocalAddress(listener.get()), first_bytes);
  pair.accepted = AwaitConnection(listener.get());
  return pair;
}

// All of them at once, which the socket has to take.
inline void SendBytes(int descriptor, absl::string_view bytes) {
  ASSERT_EQ(send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// The next `count` bytes, waiting for them; fewer at the end of the stream.
inline std::string ReadBytes(int descriptor, std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t size = 0;
  while (size < count && AwaitEvents(descriptor, POLLIN)) {
    const ssize_t got = recv(descriptor, &bytes[size], count - size, 0);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

// A port that nobody else gets and on which nobody listens yet.
class ReservedPort {
 public:
  ReservedPort() {
    const SocketAddress loopback = Resolve({"127.0.0.1", 0})->front();
    bind(descriptor_, loopback.get(), loopback.length);
    address_ = *LocalAddress(descriptor_);
  }
  ~ReservedPort() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  const SocketAddress& address() const { return address_; }
  int descriptor() const { return descriptor_; }

  // The caller closes it.
  int Release() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    return descriptor;
  }

 private:
  int descriptor_ = socket(AF_INET, SOCK_STREAM, 0);
  SocketAddress address_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_LOOPBACK_SOCKETS_H_
