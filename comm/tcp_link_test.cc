// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/link.h"
#include "shoal/comm/loopback_sockets.h"

namespace shoal::internal {
namespace {

class TcpLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    SocketPair pair = ConnectOverLoopback();
    const TcpLinkFactory factory = TcpLinkFactory::Create().value();
    near_ = factory.Make(std::move(pair.dialled)).value();
    far_ = factory.Make(std::move(pair.accepted)).value();
  }

  LinkResult Write(const std::string& bytes) {
    const iovec piece = {const_cast<char*>(bytes.data()), bytes.size()};
    return near_->TryWrite({&piece, 1});
  }

  // Reads from the far end until `count` bytes are there, or the end.
  std::string Read(std::size_t count) {
    std::string all;
    while (all.size() < count) {
      std::string buffer(count - all.size(), '\0');
      const iovec piece = {buffer.data(), buffer.size()};
      const LinkResult result = far_->TryRead({&piece, 1});
      if (result.state == LinkState::kEnded) break;
      if (result.state == LinkState::kWouldBlock) {
        AwaitEvents(far_->descriptor(), POLLIN);
        continue;
      }
      all.append(buffer, 0, result.bytes);
    }
    return all;
  }

  std::unique_ptr<Link> near_;
  std::unique_ptr<Link> far_;
};

TEST_F(TcpLinkTest, GathersAndScatters) {
  std::string a = "head", b = "", c = "payload";
  const iovec out[] = {{a.data(), a.size()}, {b.data(), 0}, {c.data(), 7}};
  const LinkResult written = near_->TryWrite(out);
  EXPECT_EQ(written.state, LinkState::kOk);
  EXPECT_EQ(written.bytes, 11u);
  AwaitEvents(far_->descriptor(), POLLIN);
  std::string x(6, '.'), y(20, '.');
  const iovec in[] = {{x.data(), x.size()}, {y.data(), y.size()}};
  const LinkResult read = far_->TryRead(in);
  EXPECT_EQ(read.state, LinkState::kOk);
  EXPECT_EQ(read.bytes, 11u);
  EXPECT_EQ(x, "headpa");
  EXPECT_EQ(y.substr(0, 5), "yload");
}

// Small lists are copied together, others are not.
TEST_F(TcpLinkTest, GathersAndScattersAnySize) {
  for (const std::size_t bytes : {0, 1, 1983, 1984, 1985, 4096}) {
    std::string head(64, 'h');
    std::string payload;
    for (std::size_t i = 0; i < bytes; ++i) {
      payload.push_back(static_cast<char>('a' + i % 23));
    }
    const iovec out[] = {{head.data(), 64}, {payload.data(), bytes}};
    ASSERT_EQ(near_->TryWrite(out).bytes, 64 + bytes);
    std::string x(70, '.'), y(bytes + 100, '.');
    const std::string sent = head + payload;
    for (std::size_t read = 0; read < sent.size();) {
      AwaitEvents(far_->descriptor(), POLLIN);
      const std::size_t in_x = std::min<std::size_t>(read, 70);
      const iovec in[] = {{x.data() + in_x, 70 - in_x},
                          {y.data() + (read - in_x), y.size() - (read - in_x)}};
      read += far_->TryRead(in).bytes;
    }
    EXPECT_EQ((x + y).substr(0, sent.size()), sent) << bytes;
    EXPECT_EQ(
        far_->TryRead(absl::MakeConstSpan(std::vector<iovec>{{x.data(), 1}}))
            .state,
        LinkState::kWouldBlock);
  }
}

TEST_F(TcpLinkTest, TheSendBufferIsBoundedOnOneMachine) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  ASSERT_EQ(
      getsockopt(near_->descriptor(), SOL_SOCKET, SO_SNDBUF, &bytes, &length),
      0);
  // The kernel doubles what it is given, for its own books.
  EXPECT_EQ(bytes, 2 * 128 * 1024);
}

TEST_F(TcpLinkTest, NothingToReadWouldBlock) {
  char byte;
  const iovec piece = {&byte, 1};
  EXPECT_EQ(far_->TryRead({&piece, 1}).state, LinkState::kWouldBlock);
  EXPECT_EQ(far_->end_reason(), "");
}

TEST_F(TcpLinkTest, NothingAskedForIsOk) {
  char byte;
  const iovec piece = {&byte, 0};
  EXPECT_EQ(far_->TryRead({&piece, 1}).state, LinkState::kOk);
  EXPECT_EQ(far_->TryRead({}).state, LinkState::kOk);
  EXPECT_EQ(near_->TryWrite({}).state, LinkState::kOk);
}

TEST_F(TcpLinkTest, FullBuffersBlockAndTheBytesArriveInOrder) {
  std::string sent;
  while (true) {
    std::string piece(70001, '\0');
    for (std::size_t i = 0; i < piece.size(); ++i) {
      piece[i] = static_cast<char>((sent.size() + i) * 31 >> 3);
    }
    const LinkResult result = Write(piece);
    if (result.state == LinkState::kWouldBlock) break;
    ASSERT_EQ(result.state, LinkState::kOk);
    sent.append(piece, 0, result.bytes);
  }
  EXPECT_EQ(Read(sent.size()), sent);
  EXPECT_EQ(Write("more").state, LinkState::kOk);
}

// More pieces than one system call takes: a prefix moves.
TEST_F(TcpLinkTest, MovesAPrefixOfAVeryLongList) {
  std::string bytes(3000, '\0');
  std::vector<iovec> pieces;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>('a' + i % 26);
    pieces.push_back({&bytes[i], 1});
  }
  std::size_t done = 0;
  while (done < bytes.size()) {
    const LinkResult result =
        near_->TryWrite(absl::MakeConstSpan(pieces).subspan(done));
    ASSERT_EQ(result.state, LinkState::kOk);
    ASSERT_GT(result.bytes, 0u);
    done += result.bytes;
  }
  EXPECT_EQ(Read(bytes.size()), bytes);
}

TEST_F(TcpLinkTest, ShutdownEndsOneDirectionInGoodOrder) {
  EXPECT_EQ(Write("last").bytes, 4u);
  near_->ShutdownWrite();
  EXPECT_EQ(Write("x").state, LinkState::kEnded);
  EXPECT_EQ(Read(5), "last");
  for (int i = 0; i < 3; ++i) {
    char byte;
    const iovec piece = {&byte, 1};
    EXPECT_EQ(far_->TryRead({&piece, 1}).state, LinkState::kEnded);
  }
  EXPECT_EQ(far_->end_reason(), "");
  // The other direction is still there.
  const iovec piece = {const_cast<char*>("back"), 4};
  EXPECT_EQ(far_->TryWrite({&piece, 1}).bytes, 4u);
  AwaitEvents(near_->descriptor(), POLLIN);
  char buffer[8];
  const iovec into = {buffer, sizeof buffer};
  EXPECT_EQ(near_->TryRead({&into, 1}).bytes, 4u);
}

// The peer goes away with bytes unread, so its end is a reset. Writing goes on
// until it shows, and raises no signal.
TEST_F(TcpLinkTest, ResetIsAnEndWithAReason) {
  EXPECT_EQ(Write("unread").state, LinkState::kOk);
  AwaitEvents(far_->descriptor(), POLLIN);
  far_ = nullptr;
  AwaitEvents(near_->descriptor(), POLLIN);
  LinkResult result = Write("x");
  while (result.state == LinkState::kOk) result = Write("x");
  EXPECT_EQ(result.state, LinkState::kEnded);
  EXPECT_EQ(Write("x").state, LinkState::kEnded);
  EXPECT_THAT(near_->end_reason(),
              testing::AnyOf("Connection reset by peer", "Broken pipe"));
}

TEST_F(TcpLinkTest, LeavesNoDescriptorBehind) {
  const int before = CountGuardedDescriptors();
  near_ = nullptr;
  far_ = nullptr;
  EXPECT_EQ(CountGuardedDescriptors(), before - 2);
}

}  // namespace
}  // namespace shoal::internal
