// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_address.h"

#include <cerrno>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;

TEST(TcpAddressTest, ParsesAndPrintsHostAndPort) {
  const struct {
    const char* text;
    const char* host;
    int port;
  } kCases[] = {{"127.0.0.1:0", "127.0.0.1", 0},
                {"node-7.cluster:29500", "node-7.cluster", 29500},
                {"[::1]:65535", "::1", 65535},
                {"[fe80::1%eth0]:1", "fe80::1%eth0", 1}};
  for (const auto& one : kCases) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const HostPort parsed, ParseHostPort(one.text));
    EXPECT_EQ(parsed.host, one.host);
    EXPECT_EQ(parsed.port, one.port);
    EXPECT_EQ(parsed.ToString(), one.text);
  }
}

TEST(TcpAddressTest, RefusesWhatIsNoAddress) {
  const struct {
    const char* text;
    const char* why;
  } kCases[] = {{"", "the host is missing"},
                {":80", "the host is missing"},
                {"[]:80", "the host is missing"},
                {"localhost", "the port is missing"},
                {"localhost:", "the port is missing"},
                {"[::1]", "the port is missing"},
                {"[::1]80", "the port is missing"},
                {"::1:80", "an IPv6 address goes in brackets"},
                {"[::1:80", "the bracket is not closed"},
                {"a:65536", "not in 0..65535"},
                {"a:-1", "not in 0..65535"},
                {"a: 1", "not in 0..65535"},
                {"a:99999999999999999999", "not in 0..65535"},
                {"a:http", "not in 0..65535"}};
  for (const auto& one : kCases) {
    EXPECT_THAT(
        ParseHostPort(one.text),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 testing::AllOf(HasSubstr(one.why), HasSubstr(one.text))))
        << one.text;
  }
}

TEST(TcpAddressTest, ResolvesNumericAddresses) {
  SHOAL_ASSERT_OK_AND_ASSIGN(std::vector<SocketAddress> found,
                             Resolve({"127.0.0.1", 4711}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ToString(), "127.0.0.1:4711");
  EXPECT_EQ(found[0].port(), 4711);
  EXPECT_TRUE(found[0].is_loopback());
  EXPECT_FALSE(found[0].is_any());
  found[0].set_port(80);
  EXPECT_EQ(found[0].ToString(), "127.0.0.1:80");

  SHOAL_ASSERT_OK_AND_ASSIGN(found, Resolve({"::1", 4711}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ToString(), "[::1]:4711");
  EXPECT_TRUE(found[0].is_loopback());
  found[0].set_port(81);
  EXPECT_EQ(found[0].port(), 81);
}

TEST(TcpAddressTest, TellsLoopbackAndAny) {
  const struct {
    const char* host;
    bool loopback;
    bool any;
    const char* text;
  } kCases[] = {{"127.3.2.1", true, false, "127.3.2.1:9"},
                {"128.0.0.1", false, false, "128.0.0.1:9"},
                {"0.0.0.0", false, true, "0.0.0.0:9"},
                {"::", false, true, "[::]:9"},
                {"::ffff:127.0.0.1", true, false, "127.0.0.1:9"},
                {"::ffff:10.0.0.1", false, false, "10.0.0.1:9"},
                {"2001:db8::1", false, false, "[2001:db8::1]:9"}};
  for (const auto& one : kCases) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const std::vector<SocketAddress> found,
                               Resolve({one.host, 9}));
    EXPECT_EQ(found[0].is_loopback(), one.loopback) << one.host;
    EXPECT_EQ(found[0].is_any(), one.any) << one.host;
    EXPECT_EQ(found[0].ToString(), one.text);
  }
}

TEST(TcpAddressTest, UnknownHostIsNamed) {
  // The top-level domain "invalid" never resolves (RFC 2606); a name with an
  // empty label is refused without asking anyone.
  EXPECT_THAT(Resolve({"a..invalid", 1}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("a..invalid")));
}

TEST(TcpAddressTest, ErrorsOfSocketsHaveCodes) {
  EXPECT_THAT(
      SocketError(EADDRINUSE, "x"),
      StatusIs(absl::StatusCode::kAlreadyExists, "x: Address already in use"));
  EXPECT_THAT(SocketError(EACCES, "x"),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(SocketError(EMFILE, "x"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(SocketError(ECONNREFUSED, "x"),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace shoal::internal
