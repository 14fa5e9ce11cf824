// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/link_drain.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/link.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal::internal {
namespace {

// One end of a connection; the test holds the other.
class SocketLink : public Link {
 public:
  SocketLink() {
    const GuardedDescriptor listener =
        ListenOn(Resolve({"127.0.0.1", 0})->front()).value();
    socket_ =
        ConnectAndSend(*LocalAddress(listener.get()), "",
                       MonotonicNow() + absl::Minutes(1), [] { return false; })
            .value();
    pollfd entry = {listener.get(), POLLIN, 0};
    poll(&entry, 1, -1);
    peer_ = AcceptFrom(listener.get()).value();
  }

  int peer() const { return peer_.get(); }
  std::size_t discarded() const { return discarded_; }

  // Until the peer's machine takes no more.
  std::size_t WriteAllThatFits() {
    const std::string piece(65536, 'x');
    std::size_t written = 0;
    while (true) {
      const ssize_t sent =
          send(socket_.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
      if (sent < 0) return written;
      written += static_cast<std::size_t>(sent);
    }
  }

  LinkResult TryWrite(absl::Span<const struct iovec>) override {
    return {LinkState::kWouldBlock, 0};
  }
  LinkResult TryRead(absl::Span<const struct iovec> pieces) override {
    const ssize_t got =
        readv(socket_.get(), pieces.data(), static_cast<int>(pieces.size()));
    if (got == 0) return {LinkState::kEnded, 0};
    if (got < 0) return {LinkState::kWouldBlock, 0};
    discarded_ += static_cast<std::size_t>(got);
    return {LinkState::kOk, static_cast<std::size_t>(got)};
  }
  void ShutdownWrite() override { shutdown(socket_.get(), SHUT_WR); }
  int descriptor() const override { return socket_.get(); }
  std::string end_reason() const override { return ""; }

 private:
  GuardedDescriptor socket_;
  GuardedDescriptor peer_;
  std::size_t discarded_ = 0;
};

// Reads until the end, or an error.
std::size_t ReadAll(int socket) {
  std::size_t all = 0;
  std::string buffer(65536, 0);
  while (true) {
    const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      all += static_cast<std::size_t>(got);
    } else if (got < 0 && errno == EAGAIN) {
      std::this_thread::yield();
    } else {
      EXPECT_EQ(got, 0) << errno;
      return all;
    }
  }
}

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

// The peer takes its time, and sends itself meanwhile.
TEST(LinkDrainTest, WaitsForThePeerToHaveEverything) {
  SocketLink link;
  Link* const links[] = {&link};
  const std::size_t written = link.WriteAllThatFits();
  std::size_t read = 0;
  std::thread peer([&link, &read] {
    const std::string bytes(1000, 'x');
    EXPECT_EQ(send(link.peer(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              1000);
    read = ReadAll(link.peer());
  });
  DrainLinks(links, absl::Minutes(2));
  int unacknowledged = -1;
  EXPECT_EQ(ioctl(link.descriptor(), SIOCOUTQ, &unacknowledged), 0);
  EXPECT_EQ(unacknowledged, 0);
  peer.join();
  EXPECT_EQ(read, written);
}

TEST(LinkDrainTest, DoesNotWaitForAPeerThatHasEverythingAndStays) {
  SocketLink link;
  Link* const links[] = {&link};
  ASSERT_EQ(send(link.descriptor(), "abc", 3, MSG_NOSIGNAL), 3);
  DrainLinks(links, absl::InfiniteDuration());
  EXPECT_EQ(ReadAll(link.peer()), 3u);
}

TEST(LinkDrainTest, WaitsNoLongerThanItsTimeout) {
  SocketLink link;
  Link* const links[] = {&link};
  link.WriteAllThatFits();
  const absl::Time start = absl::Now();
  DrainLinks(links, absl::Milliseconds(20));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(20));
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
  link.WriteAllThatFits();
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
