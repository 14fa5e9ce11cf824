// SPDX-License-Identifier: Apache-2.0
//
// A rank that joins a rank 0 which the test plays.

#include "shoal/comm/bootstrap_member.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/bootstrap_test_world.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/stranger.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kSession = 12345;

// The member, and what rank 0 says to it.
class BootstrapMemberTest : public testing::Test {
 protected:
  BootstrapMemberTest() : listener_(TcpListener::Bind("127.0.0.1:0").value()) {}

  // Starts the member, which says hello.
  void Start(int rank, int world_size) {
    rank_ = std::make_unique<Rank>(rank, world_size, listener_.address());
    rank_->options.host_id = "this machine";
    rank_->options.timeouts.join = join_;
    rank_->options.timeouts.answer_window = answer_window_;
    rank_->Start(&BootstrapAsMember);
    Accept();
  }

  void Accept() {
    zero_ = std::make_unique<Stranger>(AwaitConnection(listener_.descriptor()));
    SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage message,
                               zero_->Receive());
    ASSERT_TRUE(message.has_hello());
    hello_ = message.hello();
  }

  void SendAccepted() {
    comm::BootstrapMessage message;
    message.mutable_hello_accepted();
    zero_->Send(message);
  }

  // A table in which rank 0 calls itself what nobody else can reach.
  static comm::BootstrapMessage Table(
      const std::vector<std::string>& addresses) {
    comm::BootstrapMessage message;
    comm::Welcome* const welcome = message.mutable_welcome();
    welcome->set_session(kSession);
    welcome->mutable_options()->set_slice_bytes(4711);
    for (int i = 0; i < AlgorithmPolicy::kWorlds; ++i) {
      welcome->mutable_options()->add_recursive_doubling_max_bytes(i);
    }
    welcome->add_peers()->add_addresses("192.0.2.1:1");
    for (const std::string& address : addresses) {
      comm::Peer* const peer = welcome->add_peers();
      if (!address.empty()) peer->add_addresses(address);
      peer->set_pid(4711);
    }
    return message;
  }

  // What the member tells rank 0 when it gives up.
  absl::Status ToldFailure() {
    const absl::StatusOr<comm::BootstrapMessage> message = zero_->Receive();
    if (!message.ok()) return message.status();
    if (!message->has_failure()) return absl::InternalError("another message");
    return FailureStatus(message->failure());
  }

  TcpListener listener_;
  absl::Duration join_ = absl::Seconds(120);
  absl::Duration answer_window_ = absl::Milliseconds(50);
  std::unique_ptr<Rank> rank_;
  std::unique_ptr<Stranger> zero_;
  comm::Hello hello_;
};

TEST_F(BootstrapMemberTest, JoinsWhereRankZeroWasFound) {
  Start(1, 2);
  EXPECT_EQ(hello_.protocol_version(), kProtocolVersion);
  EXPECT_EQ(hello_.job_id(), "test");
  EXPECT_EQ(hello_.rank(), 1u);
  EXPECT_EQ(hello_.world_size(), 2u);
  EXPECT_EQ(hello_.host_id(), "this machine");
  EXPECT_EQ(hello_.pid(), static_cast<std::uint32_t>(getpid()));
  ASSERT_EQ(hello_.addresses_size(), 1);
  const Stranger there(hello_.addresses(0), "");  // it listens already
  SendAccepted();
  zero_->Send(Table({hello_.addresses(0)}));

  Stranger link(AwaitConnection(listener_.descriptor()));
  SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage link_hello,
                             link.Receive());
  EXPECT_EQ(link_hello.link_hello().session(), kSession);
  EXPECT_EQ(link_hello.link_hello().purpose(), comm::LinkHello::COLLECTIVE);
  comm::BootstrapMessage accepted;
  accepted.mutable_link_accepted();
  link.Send(accepted);
  SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage ready,
                             zero_->Receive());
  ASSERT_TRUE(ready.has_ready());
  comm::BootstrapMessage go;
  go.mutable_go();
  zero_->Send(Framed(go) + "what follows");

  SHOAL_ASSERT_OK(rank_->Result());
  const JoinedWorld& joined = *rank_->Result();
  EXPECT_EQ(joined.session, kSession);
  EXPECT_EQ(joined.options.slice_bytes, 4711u);
  ASSERT_EQ(joined.peers.size(), 2u);
  EXPECT_EQ(joined.peers[0].addresses[0], listener_.address());
  EXPECT_EQ(joined.peers[1].pid, 4711u);
  EXPECT_TRUE(joined.listener.valid());
  EXPECT_EQ(ReadBytes(joined.control[0].get(), 12), "what follows");
  link.Send("payload");
  EXPECT_EQ(ReadBytes(joined.collective[0].get(), 7), "payload");
}

TEST_F(BootstrapMemberTest, ATableOfAnotherSizeEndsTheAttempt) {
  Start(1, 3);
  SendAccepted();
  zero_->Send(Table({"127.0.0.1:1"}));
  const auto expected =
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a table of 2 ranks"));
  EXPECT_THAT(ToldFailure(), expected);
  EXPECT_THAT(rank_->Result(), expected);
}

TEST_F(BootstrapMemberTest, ARankWithoutAnAddressIsNamed) {
  Start(2, 3);
  SendAccepted();
  zero_->Send(Table({"", "127.0.0.1:1"}));
  const auto expected = StatusIs(absl::StatusCode::kDataLoss,
                                 "rank 1 has not published an address");
  EXPECT_THAT(ToldFailure(), expected);
  EXPECT_THAT(rank_->Result(), expected);
}

// It may know better why the attempt has failed.
TEST_F(BootstrapMemberTest, RankZeroHasTheLastWord) {
  answer_window_ = absl::Seconds(60);
  Start(2, 3);
  SendAccepted();
  comm::BootstrapMessage go;
  go.mutable_go();
  zero_->Send(go);
  EXPECT_THAT(ToldFailure(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("out of turn")));
  zero_->Send(go);  // crosses the failure, and changes nothing
  zero_->Send(EncodeFrame(EncodeFailure(absl::AbortedError("rank 1 died"))));
  EXPECT_THAT(rank_->Result(),
              StatusIs(absl::StatusCode::kAborted, "rank 1 died"));
}

TEST_F(BootstrapMemberTest, RankZeroMayGoWithoutALastWord) {
  answer_window_ = absl::Seconds(60);
  Start(2, 3);
  SendAccepted();
  SendAccepted();
  EXPECT_THAT(ToldFailure(), StatusIs(absl::StatusCode::kDataLoss));
  zero_->Close();
  EXPECT_THAT(rank_->Result(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("out of turn")));
}

// Before it is accepted, nothing binds it to what it has found.
TEST_F(BootstrapMemberTest, DialsAgainWhenItIsNotLetIn) {
  Start(1, 2);
  for (int i = 0; i < 3; ++i) {
    zero_->Close();
    Accept();
  }
  zero_->Send(EncodeFrame(EncodeFailure(
      absl::FailedPreconditionError("it counts 3 ranks, you count 2"))));
  EXPECT_THAT(rank_->Result(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("you count 2")));
  const std::vector<std::string> states = rank_->states.lines();
  EXPECT_EQ(std::count(states.begin(), states.end(), "dialing"), 1 + 3);
}

TEST_F(BootstrapMemberTest, AnotherReleaseIsToldApart) {
  Start(1, 2);
  std::string other_release = EncodeFrame("");
  other_release[4] = 9;
  zero_->Send(other_release);
  EXPECT_THAT(rank_->Result(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr("rank 0"),
                                              HasSubstr(listener_.address()),
                                              HasSubstr("version 9"))));
}

TEST_F(BootstrapMemberTest, TimeoutNamesTheLinksThatAreMissing) {
  join_ = absl::Seconds(1) * TimeoutScale();
  const ReservedPort refusing;
  const std::string address = refusing.address().ToString();
  Start(2, 3);
  SendAccepted();
  zero_->Send(Table({address, hello_.addresses(0)}));
  const auto expected = StatusIs(
      absl::StatusCode::kDeadlineExceeded,
      AllOf(HasSubstr("rank 2 had no link to rank 0 (no answer); no link to "
                      "rank 1 (cannot connect to " +
                      address + ": Connection refused)"),
            HasSubstr(absl::FormatDuration(join_))));
  EXPECT_THAT(ToldFailure(), expected);
  EXPECT_THAT(rank_->Result(), expected);
}

TEST_F(BootstrapMemberTest, AnAddressThatIsNoneIsRefused) {
  BootstrapOptions options;
  options.rank = 1;
  options.address = "nowhere";
  EXPECT_THAT(BootstrapAsMember(std::move(options)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace shoal::internal
