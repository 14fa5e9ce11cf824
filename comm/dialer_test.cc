// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/dialer.h"

#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/test_loop.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DialerTest : public testing::Test {
 protected:
  ~DialerTest() override {
    if (dialer_ != nullptr) dialer_->Stop();
  }

  void Dial(Dialer::Resolver resolver) {
    dialer_ = Dialer::Start(loop_.get(), std::move(resolver),
                            [this](GuardedDescriptor socket) {
                              connected_.push_back(std::move(socket));
                            });
  }
  void Dial(std::vector<SocketAddress> addresses) {
    Dial([this, addresses] {
      ++rounds_;
      return addresses;
    });
  }

  void AwaitConnected(std::size_t count) {
    loop_.RunUntil([&] { return connected_.size() == count; });
    ASSERT_EQ(connected_.size(), count);
  }

  TestLoop loop_;
  std::shared_ptr<Dialer> dialer_;
  std::vector<GuardedDescriptor> connected_;
  int rounds_ = 0;
};

SocketAddress AddressOf(const GuardedDescriptor& socket) {
  return *LocalAddress(socket.get());
}

TEST_F(DialerTest, TriesAllAddressesInTurn) {
  const ReservedPort refusing;
  const GuardedDescriptor listener = ListenOnLoopback();
  Dial({refusing.address(), AddressOf(listener)});
  AwaitConnected(1);
  EXPECT_EQ(rounds_, 1);
  SHOAL_ASSERT_OK_AND_ASSIGN(const SocketAddress peer,
                             PeerAddress(connected_[0].get()));
  EXPECT_EQ(peer.ToString(), AddressOf(listener).ToString());
  EXPECT_THAT(dialer_->last_error(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(refusing.address().ToString()),
                             HasSubstr("refused"))));
  // One connection, however long the loop runs.
  loop_.RunToEnd();
  EXPECT_EQ(connected_.size(), 1u);
}

TEST_F(DialerTest, ThereIsNoErrorBeforeTheFirstFailure) {
  const GuardedDescriptor listener = ListenOnLoopback();
  Dial({AddressOf(listener)});
  SHOAL_EXPECT_OK(dialer_->last_error());
  AwaitConnected(1);
  SHOAL_EXPECT_OK(dialer_->last_error());
}

TEST_F(DialerTest, TriesAgainUntilSomebodyListens) {
  const ReservedPort port;
  Dial({port.address()});
  loop_.RunUntil([this] { return rounds_ == 3; });
  EXPECT_TRUE(connected_.empty());
  ASSERT_EQ(listen(port.descriptor(), 1), 0);
  AwaitConnected(1);
}

// A name may get its address, or another one, while others wait for it.
TEST_F(DialerTest, AsksForTheAddressesBeforeEachRound) {
  const ReservedPort refusing;
  const GuardedDescriptor listener = ListenOnLoopback();
  Dial([&]() -> absl::StatusOr<std::vector<SocketAddress>> {
    switch (++rounds_) {
      case 1:
        return absl::NotFoundError("no such host");
      case 2:
        return std::vector<SocketAddress>{refusing.address()};
      default:
        return std::vector<SocketAddress>{AddressOf(listener)};
    }
  });
  EXPECT_THAT(dialer_->last_error(),
              StatusIs(absl::StatusCode::kNotFound, "no such host"));
  AwaitConnected(1);
  EXPECT_EQ(rounds_, 3);
  EXPECT_THAT(dialer_->last_error(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("refused")));
}

TEST_F(DialerTest, AConnectionOfNoUseIsFollowedByAnother) {
  const GuardedDescriptor listener = ListenOnLoopback();
  Dial({AddressOf(listener)});
  for (std::size_t count = 1; count <= 3; ++count) {
    AwaitConnected(count);
    dialer_->Retry(absl::PermissionDeniedError("go away"));
    EXPECT_THAT(dialer_->last_error(),
                StatusIs(absl::StatusCode::kPermissionDenied, "go away"));
    EXPECT_EQ(connected_.size(), count) << "not from inside Retry";
  }
  EXPECT_EQ(rounds_, 3);
}

// While it tries, while it pauses, and while a success is on its way to the
// handler.
TEST_F(DialerTest, NothingHappensAfterStop) {
  const ReservedPort refusing;
  const GuardedDescriptor listener = ListenOnLoopback();
  const int before = CountGuardedDescriptors();
  for (const bool listens : {false, true}) {
    for (const bool pauses : {false, true}) {
      rounds_ = 0;
      if (listens && pauses) {
        Dial([this]() -> absl::StatusOr<std::vector<SocketAddress>> {
          ++rounds_;
          return absl::NotFoundError("no such host");
        });
      } else {
        Dial({listens ? AddressOf(listener) : refusing.address()});
        if (pauses) {
          loop_.RunUntil([this] { return !dialer_->last_error().ok(); });
        }
      }
      dialer_->Stop();
      dialer_->Retry(absl::InternalError("too late"));
      loop_.RunToEnd();
      EXPECT_TRUE(connected_.empty()) << listens << pauses;
      EXPECT_EQ(rounds_, 1) << listens << pauses;
      EXPECT_EQ(CountGuardedDescriptors(), before) << listens << pauses;
    }
  }
}

TEST_F(DialerTest, TheHandlerMayStop) {
  const GuardedDescriptor listener = ListenOnLoopback();
  dialer_ = Dialer::Start(
      loop_.get(),
      [&] { return std::vector<SocketAddress>{AddressOf(listener)}; },
      [this](GuardedDescriptor socket) {
        dialer_->Stop();
        connected_.push_back(std::move(socket));
      });
  loop_.RunToEnd();
  ASSERT_EQ(connected_.size(), 1u);
  const GuardedDescriptor accepted = AwaitConnection(listener.get());
  SendBytes(accepted.get(), "hello");
  EXPECT_EQ(ReadBytes(connected_[0].get(), 5), "hello");
}

}  // namespace
}  // namespace shoal::internal
