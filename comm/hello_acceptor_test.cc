// SPDX-License-Identifier: Apache-2.0
//
// What bootstrap_stranger_test.cc does not reach through a world: what the
// handler gets, how a connection is refused, what Stop leaves, and a lack of
// descriptors.

#include "shoal/comm/hello_acceptor.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/framed_connection.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/stranger.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/test_loop.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HelloAcceptorTest : public testing::Test {
 protected:
  ~HelloAcceptorTest() override {
    if (acceptor_ != nullptr) acceptor_->Stop();
  }

  void Start(HelloAcceptorOptions options = {}) {
    GuardedDescriptor listener = ListenOnLoopback();
    address_ = LocalAddress(listener.get())->ToString();
    options.log = [this](absl::string_view line) { log_.emplace_back(line); };
    acceptor_ = HelloAcceptor::Start(
                    loop_.get(), std::move(listener), std::move(options),
                    [this](comm::BootstrapMessage message,
                           std::shared_ptr<FramedConnection> connection) {
                      messages_.push_back(std::move(message));
                      connections_.push_back(std::move(connection));
                      if (on_hello_) on_hello_();
                    })
                    .value();
  }

  TestLoop loop_;
  std::string address_;
  std::vector<std::string> log_;
  std::vector<comm::BootstrapMessage> messages_;
  std::vector<std::shared_ptr<FramedConnection>> connections_;
  std::function<void()> on_hello_;
  std::shared_ptr<HelloAcceptor> acceptor_;
};

TEST_F(HelloAcceptorTest, TheHandlerGetsTheMessageAndAConnectionAtItsEnd) {
  Start();
  Stranger stranger(address_, Framed(GoodHello(3, 5)) + "what follows");
  loop_.RunUntil([this] { return messages_.size() == 1; });
  EXPECT_EQ(messages_[0].hello().rank(), 3u);
  EXPECT_EQ(connections_[0]->peer_name(), stranger.own_address());
  loop_.RunReady();
  const GuardedDescriptor socket = connections_[0]->Release();
  EXPECT_EQ(ReadBytes(socket.get(), 12), "what follows");
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(HelloAcceptorTest, ARefusedOneIsToldWhyAndClosed) {
  Start();
  const int before = CountGuardedDescriptors();
  Stranger stranger(address_, Framed(GoodHello(3, 5)));
  loop_.RunUntil([this] { return messages_.size() == 1; });
  acceptor_->Refuse(std::move(connections_[0]),
                    absl::FailedPreconditionError("the world is full"));
  loop_.RunUntil([&] { return IsReadable(stranger.descriptor()); });
  SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage answer,
                             stranger.Receive());
  EXPECT_THAT(
      FailureStatus(answer.failure()),
      StatusIs(absl::StatusCode::kFailedPrecondition, "the world is full"));
  // It may go on talking; nobody listens.
  stranger.Send(Framed(GoodHello(3, 5)));
  loop_.RunReady();
  EXPECT_EQ(messages_.size(), 1u);
  stranger.Close();
  loop_.RunUntil([&] { return CountGuardedDescriptors() == before; });
  EXPECT_THAT(log_, ElementsAre(AllOf(HasSubstr("turned away"),
                                      HasSubstr("the world is full"))));
}

TEST_F(HelloAcceptorTest, ARefusedOneThatStaysIsClosedAfterTheHellosTime) {
  HelloAcceptorOptions options;
  options.hello_timeout = absl::Milliseconds(50);
  Start(options);
  // A starved machine may take longer than that to read a hello.
  std::vector<Stranger> strangers;
  while (messages_.empty() && strangers.size() < 100) {
    strangers.emplace_back(address_, Framed(GoodHello(3, 5)));
    loop_.RunUntil(
        [&] { return messages_.size() + log_.size() == strangers.size(); });
  }
  ASSERT_EQ(messages_.size(), 1u);
  const std::size_t lines = log_.size();
  const int with_connection = CountGuardedDescriptors();
  acceptor_->Refuse(std::move(connections_[0]),
                    absl::FailedPreconditionError("the world is full"));
  loop_.RunUntil([&] { return CountGuardedDescriptors() < with_connection; });
  EXPECT_EQ(log_.size(), lines + 1) << "that it was refused, and no more";
}

TEST_F(HelloAcceptorTest, TheOldestSilentOneHasToGo) {
  HelloAcceptorOptions options;
  options.hello_timeout = absl::Hours(1);
  options.max_silent_connections = 2;
  Start(options);
  std::vector<Stranger> strangers;
  for (int i = 0; i < 3; ++i) strangers.emplace_back(address_, "");
  loop_.RunUntil([this] { return !log_.empty(); });
  EXPECT_THAT(log_, ElementsAre(AllOf(HasSubstr(strangers[0].own_address()),
                                      HasSubstr("too many"))));
  strangers[0].AwaitEnd();
  for (int i : {2, 1}) strangers[i].Send(GoodHello(i, 3));
  loop_.RunUntil([this] { return messages_.size() == 2; });
}

TEST_F(HelloAcceptorTest, StopDropsTheSilentAndGivesTheListenerBack) {
  Start();
  const int before = CountGuardedDescriptors();
  Stranger silent(address_, "SHO");
  loop_.RunUntil([&] { return CountGuardedDescriptors() == before + 2; });
  Stranger queued(address_, Framed(GoodHello(1, 2)));
  const GuardedDescriptor listener = acceptor_->Stop();
  ASSERT_TRUE(listener.valid());
  EXPECT_FALSE(acceptor_->Stop().valid()) << "it is given back once";
  loop_.RunToEnd();
  silent.AwaitEnd();
  EXPECT_THAT(messages_, IsEmpty());
  // The one that came later is the next owner's.
  const GuardedDescriptor accepted = AwaitConnection(listener.get());
  EXPECT_EQ(PeerAddress(accepted.get())->ToString(), queued.own_address());
}

TEST_F(HelloAcceptorTest, TheHandlerMayStop) {
  Start();
  GuardedDescriptor listener;
  on_hello_ = [&] { listener = acceptor_->Stop(); };
  Stranger first(address_, Framed(GoodHello(1, 3)));
  Stranger second(address_, Framed(GoodHello(2, 3)));
  loop_.RunToEnd();
  EXPECT_EQ(messages_.size(), 1u);
  EXPECT_TRUE(listener.valid());
  EXPECT_GE(connections_[0]->descriptor(), 0) << "known by then";
}

// Lets the process open no more descriptors than it has, while it lives.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDIN_FILENO);
    close(next);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(next);
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST_F(HelloAcceptorTest, WithoutDescriptorsItSaysSoAndAcceptsLater) {
  Start();
  const Stranger stranger(address_, Framed(GoodHello(1, 2)));
  {
    const NoMoreDescriptors none;
    loop_.RunUntil([this] { return !log_.empty(); });
  }
  EXPECT_THAT(log_[0], HasSubstr("Too many open files"));
  loop_.RunUntil([this] { return messages_.size() == 1; });
}

TEST_F(HelloAcceptorTest, ADescriptorThatIsNoSocketIsRefused) {
  HelloAcceptorOptions options;
  options.log = [](absl::string_view) {};
  EXPECT_FALSE(
      HelloAcceptor::Start(
          loop_.get(), GuardedDescriptor::Open([] { return dup(0); }), options,
          [](comm::BootstrapMessage, std::shared_ptr<FramedConnection>) {})
          .ok());
}

}  // namespace
}  // namespace shoal::internal
