// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Whether somebody listens at `address`.
bool Answers(const std::string& address) {
  return internal::ConnectAndSend(
             internal::Resolve(*internal::ParseHostPort(address))->front(), "",
             internal::MonotonicNow() + absl::Seconds(60), [] { return false; })
      .ok();
}

TEST(TcpListenerTest, PortZeroTakesAFreePort) {
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  EXPECT_THAT(listener.address(),
              AllOf(StartsWith("127.0.0.1:"), Not("127.0.0.1:0")));
  EXPECT_TRUE(Answers(listener.address()));
}

TEST(TcpListenerTest, ClosesWhenDestroyed) {
  const int before = internal::CountGuardedDescriptors();
  std::string address;
  {
    SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener listener,
                               TcpListener::Bind("127.0.0.1:0"));
    address = listener.address();
    TcpListener moved = std::move(listener);
    EXPECT_EQ(listener.descriptor(), -1);
    EXPECT_TRUE(Answers(address));
    listener = std::move(moved);
    EXPECT_TRUE(Answers(address));
  }
  EXPECT_FALSE(Answers(address));
  EXPECT_EQ(internal::CountGuardedDescriptors(), before);
}

TEST(TcpListenerTest, AddressInUseIsNamed) {
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  EXPECT_THAT(TcpListener::Bind(listener.address()),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr(listener.address()),
                             HasSubstr("Address already in use"))));
}

TEST(TcpListenerTest, OtherErrorsNameTheAddressToo) {
  EXPECT_THAT(TcpListener::Bind("localhost"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the port is missing")));
  EXPECT_THAT(TcpListener::Bind("no..host:1"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no..host")));
  // An address for documentation (RFC 5737), which no machine has.
  EXPECT_THAT(
      TcpListener::Bind("192.0.2.1:0"),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("192.0.2.1:0")));
}

TEST(TcpListenerTest, ListensOnIpv6) {
  absl::StatusOr<TcpListener> listener = TcpListener::Bind("[::1]:0");
  if (!listener.ok()) GTEST_SKIP() << "no IPv6 here: " << listener.status();
  EXPECT_THAT(listener->address(), StartsWith("[::1]:"));
  EXPECT_TRUE(Answers(listener->address()));
}

TEST(TcpListenerTest, AllInterfacesOfIpv6TakeIpv4) {
  absl::StatusOr<TcpListener> listener = TcpListener::Bind("[::]:0");
  if (!listener.ok()) GTEST_SKIP() << "no IPv6 here: " << listener.status();
  const auto port = internal::ParseHostPort(listener->address())->port;
  EXPECT_TRUE(Answers("127.0.0.1:" + std::to_string(port)));
}

TEST(TcpListenerTest, TakesOverADescriptor) {
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener first,
                             TcpListener::Bind("127.0.0.1:0"));
  const std::string address = first.address();
  const int inherited = dup(std::move(first).ReleaseDescriptor());
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener second,
                             TcpListener::FromDescriptor(inherited));
  EXPECT_EQ(second.address(), address);
  EXPECT_EQ(fcntl(inherited, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(fcntl(inherited, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
}

TEST(TcpListenerTest, RefusesDescriptorsThatDoNotListen) {
  EXPECT_THAT(
      TcpListener::FromDescriptor(-1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("descriptor -1")));
  const int plain = open("/dev/null", O_RDONLY);
  EXPECT_THAT(TcpListener::FromDescriptor(plain),
              StatusIs(absl::StatusCode::kInvalidArgument));
  close(plain);
  const int idle = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_THAT(TcpListener::FromDescriptor(idle),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("it does not listen")));
  // Still the caller's.
  EXPECT_EQ(close(idle), 0);
}

TEST(TcpListenerTest, OnlyAReleasedDescriptorSurvivesAFork) {
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  const int number = listener.descriptor();
  const auto open_in_child = [number] {
    const pid_t child = fork();
    if (child == 0) _exit(fcntl(number, F_GETFD) >= 0 ? 1 : 0);
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1;
  };
  EXPECT_FALSE(open_in_child());
  const int released = std::move(listener).ReleaseDescriptor();
  EXPECT_EQ(released, number);
  EXPECT_TRUE(open_in_child());
  close(released);
}

}  // namespace
}  // namespace shoal
