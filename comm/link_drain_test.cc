// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/link_drain.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/comm/link.h"

namespace shoal::internal {
namespace {

// One end of a socket pair; the test holds the other.
class SocketLink : public Link {
 public:
  SocketLink() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0) {
      socket_ = ends[0];
      peer_ = ends[1];
    }
  }
  ~SocketLink() override {
    close(socket_);
    close(peer_);
  }

  int peer() const { return peer_; }
  std::size_t discarded() const { return discarded_; }

  LinkResult TryWrite(absl::Span<const struct iovec>) override {
    return {LinkState::kWouldBlock, 0};
  }
  LinkResult TryRead(absl::Span<const struct iovec> pieces) override {
    const ssize_t got =
        readv(socket_, pieces.data(), static_cast<int>(pieces.size()));
    if (got == 0) return {LinkState::kEnded, 0};
    if (got < 0) return {LinkState::kWouldBlock, 0};
    discarded_ += static_cast<std::size_t>(got);
    return {LinkState::kOk, static_cast<std::size_t>(got)};
  }
  void ShutdownWrite() override { shutdown(socket_, SHUT_WR); }
  int descriptor() const override { return socket_; }
  std::string end_reason() const override { return ""; }

 private:
  int socket_ = -1;
  int peer_ = -1;
  std::size_t discarded_ = 0;
};

// A link that is woken in another way, and never ends.
class MemoryLikeLink : public Link {
 public:
  bool shut_down() const { return shut_down_; }

  LinkResult TryWrite(absl::Span<const struct iovec>) override {
    return {LinkState::kWouldBlock, 0};
  }
  LinkResult TryRead(absl::Span<const struct iovec>) override {
    return {LinkState::kWouldBlock, 0};
  }
  void ShutdownWrite() override { shut_down_ = true; }
  int descriptor() const override { return -1; }
  std::string end_reason() const override { return ""; }

 private:
  bool shut_down_ = false;
};

TEST(LinkDrainTest, TakesThePeersLastBytesAndWaitsForItsEnd) {
  SocketLink link;
  Link* const links[] = {&link};
  std::thread peer([&link] {
    // The peer sees this side's end first, and answers with more bytes.
    char byte;
    while (recv(link.peer(), &byte, 1, 0) != 0) {
      std::this_thread::yield();
    }
    const std::string bytes(1000, 'x');
    EXPECT_EQ(send(link.peer(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              1000);
    shutdown(link.peer(), SHUT_WR);
  });
  DrainLinks(links, absl::Minutes(2));
  peer.join();
  EXPECT_EQ(link.discarded(), 1000u);
}

TEST(LinkDrainTest, WaitsNoLongerThanItsTimeout) {
  SocketLink link;
  Link* const links[] = {&link};
  const absl::Time start = absl::Now();
  DrainLinks(links, absl::Milliseconds(20));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(20));
  char byte;
  EXPECT_EQ(recv(link.peer(), &byte, 1, 0), 0);
}

TEST(LinkDrainTest, ZeroTimeoutShutsDownAndTakesWhatIsThere) {
  SocketLink link;
  ASSERT_EQ(send(link.peer(), "abc", 3, 0), 3);
  Link* const links[] = {&link};
  DrainLinks(links, absl::ZeroDuration());
  EXPECT_EQ(link.discarded(), 3u);
}

TEST(LinkDrainTest, APeerThatNeverStopsDoesNotHoldItUp) {
  SocketLink link;
  Link* const links[] = {&link};
  std::atomic<bool> stop{false};
  std::thread peer([&link, &stop] {
    const std::string bytes(64 * 1024, 'x');
    while (!stop.load()) {
      if (send(link.peer(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
        std::this_thread::yield();
      }
    }
  });
  DrainLinks(links, absl::Milliseconds(30));
  stop.store(true);
  peer.join();
  EXPECT_GT(link.discarded(), 0u);
}

TEST(LinkDrainTest, DoesNotWaitForLinksWithoutDescriptor) {
  MemoryLikeLink link;
  Link* const links[] = {&link};
  DrainLinks(links, absl::InfiniteDuration());
  EXPECT_TRUE(link.shut_down());
}

}  // namespace
}  // namespace shoal::internal
