// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/tcp_address.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;

constexpr auto kNever = [] { return false; };

absl::Time Soon() { return MonotonicNow() + absl::Seconds(60); }

int IntOption(int descriptor, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  getsockopt(descriptor, level, name, &value, &length);
  return value;
}

std::string ReadToEnd(int descriptor) {
  std::string all;
  char buffer[65536];
  while (true) {
    const ssize_t got = recv(descriptor, buffer, sizeof buffer, 0);
    if (got > 0) {
      all.append(buffer, static_cast<std::size_t>(got));
    } else if (got == 0) {
      return all;
    } else if (errno == EAGAIN) {
      AwaitEvents(descriptor, POLLIN);
    } else {
      return all + " and error " + std::to_string(errno);
    }
  }
}

TEST(TcpSocketTest, BothEndsAreAsTheyShouldBe) {
  const SocketPair connection = ConnectOverLoopback();
  for (const int end : {connection.dialled.get(), connection.accepted.get()}) {
    EXPECT_EQ(IntOption(end, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(fcntl(end, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(fcntl(end, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  }
}

TEST(TcpSocketTest, FirstBytesAreSent) {
  const std::string bytes(3000000, 'x');  // more than the buffers hold
  GuardedDescriptor listener =
      ListenOn(Resolve({"127.0.0.1", 0})->front()).value();
  std::string got;
  std::thread reader([&] {
    AwaitEvents(listener.get(), POLLIN);
    const GuardedDescriptor accepted = AcceptFrom(listener.get()).value();
    got = ReadToEnd(accepted.get());
  });
  EXPECT_THAT(
      ConnectAndSend(*LocalAddress(listener.get()), bytes, Soon(), kNever),
      IsOk());
  reader.join();
  EXPECT_EQ(got.size(), bytes.size());
}

TEST(TcpSocketTest, RefusedConnectionNamesTheAddress) {
  GuardedDescriptor listener =
      ListenOn(Resolve({"127.0.0.1", 0})->front()).value();
  const SocketAddress address = *LocalAddress(listener.get());
  listener.Close();
  EXPECT_THAT(ConnectAndSend(address, "", Soon(), kNever),
              StatusIs(absl::StatusCode::kUnavailable,
                       testing::AllOf(HasSubstr(address.ToString()),
                                      HasSubstr("refused"))));
}

TEST(TcpSocketTest, ConnectingEndsAtItsDeadlineAndWhenCancelled) {
  GuardedDescriptor listener =
      ListenOn(Resolve({"127.0.0.1", 0})->front()).value();
  const SocketAddress address = *LocalAddress(listener.get());
  // Nobody reads so much, so that writing has to wait.
  const std::string bytes(64 << 20, 'x');
  EXPECT_THAT(ConnectAndSend(address, bytes,
                             MonotonicNow() + absl::Milliseconds(50), kNever),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr(address.ToString())));
  int asked = 0;
  EXPECT_THAT(
      ConnectAndSend(address, bytes, Soon(), [&asked] { return ++asked > 3; }),
      StatusIs(absl::StatusCode::kCancelled, HasSubstr(address.ToString())));
}

TEST(TcpSocketTest, AcceptWithoutAnyoneWaitingIsUnavailable) {
  GuardedDescriptor listener =
      ListenOn(Resolve({"127.0.0.1", 0})->front()).value();
  EXPECT_THAT(AcceptFrom(listener.get()),
              StatusIs(absl::StatusCode::kUnavailable));
}

// The closing side has not read what came. A plain close would reset the
// connection and destroy what it has sent.
TEST(TcpSocketTest, DrainingLetsThePeerReadEverything) {
  SocketPair connection = ConnectOverLoopback();
  const std::string unread(100000, 'u');
  ASSERT_EQ(send(connection.dialled.get(), unread.data(), unread.size(), 0),
            static_cast<ssize_t>(unread.size()));
  std::string sent;
  while (true) {
    const std::string piece(65536, static_cast<char>('a' + sent.size() % 26));
    const ssize_t bytes = send(connection.accepted.get(), piece.data(),
                               piece.size(), MSG_NOSIGNAL);
    if (bytes < 0) break;
    sent.append(piece, 0, static_cast<std::size_t>(bytes));
  }
  std::string got;
  std::thread reader([&] { got = ReadToEnd(connection.dialled.get()); });
  std::vector<GuardedDescriptor> sockets;
  sockets.push_back(std::move(connection.accepted));
  DrainAndClose(std::move(sockets), Soon());
  reader.join();
  EXPECT_EQ(got.size(), sent.size());
  EXPECT_EQ(got, sent);
}

TEST(TcpSocketTest, DrainingDoesNotWaitForPeersThatHaveEverything) {
  SocketPair connection = ConnectOverLoopback();
  ASSERT_EQ(send(connection.accepted.get(), "bye", 3, 0), 3);
  std::vector<GuardedDescriptor> sockets;
  sockets.push_back(std::move(connection.accepted));
  // The peer neither reads nor closes; with no deadline at all this returns.
  DrainAndClose(std::move(sockets), absl::InfiniteFuture());
  EXPECT_EQ(ReadToEnd(connection.dialled.get()), "bye");
}

// That this is harmless rests on Linux: a reset ends the connection, and leaves
// what has arrived to be read.
TEST(TcpSocketTest, WhatHasArrivedSurvivesAReset) {
  SocketPair connection = ConnectOverLoopback();
  ASSERT_EQ(send(connection.accepted.get(), "bye", 3, 0), 3);
  std::vector<GuardedDescriptor> sockets;
  sockets.push_back(std::move(connection.accepted));
  DrainAndClose(std::move(sockets), absl::InfiniteFuture());
  // Nobody is there any more to take this.
  ASSERT_EQ(send(connection.dialled.get(), "x", 1, MSG_NOSIGNAL), 1);
  pollfd entry = {connection.dialled.get(), 0, 0};
  poll(&entry, 1, 60000);
  EXPECT_NE(entry.revents & POLLHUP, 0);
  EXPECT_THAT(ReadToEnd(connection.dialled.get()), testing::StartsWith("bye"));
}

TEST(TcpSocketTest, DrainingEndsAtItsDeadline) {
  SocketPair connection = ConnectOverLoopback();
  const std::string piece(65536, 'x');
  while (send(connection.accepted.get(), piece.data(), piece.size(),
              MSG_NOSIGNAL) > 0) {
  }
  const absl::Time start = MonotonicNow();
  std::vector<GuardedDescriptor> sockets;
  sockets.push_back(std::move(connection.accepted));
  DrainAndClose(std::move(sockets), start + absl::Milliseconds(30));
  EXPECT_GE(MonotonicNow() - start, absl::Milliseconds(30));
}

}  // namespace
}  // namespace shoal::internal
