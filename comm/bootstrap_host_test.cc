// SPDX-License-Identifier: Apache-2.0
//
// Rank 0 against members that the test plays, from the table of all ranks on:
// bootstrap_stranger_test.cc has what happens before.

#include "shoal/comm/bootstrap_host.h"

#include <unistd.h>

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
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/bootstrap_test_world.h"
#include "shoal/comm/call.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/stranger.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;

// Rank 0 of three, and the connections of the two others.
class BootstrapHostTest : public testing::Test {
 protected:
  BootstrapHostTest() : world_(3) { host().options.host_id = HostId(); }

  Rank& host() { return *world_.ranks[0]; }

  // The hellos are there before the host is.
  void Start() {
    for (const int rank : {1, 2}) {
      comm::BootstrapMessage hello = GoodHello(rank, 3);
      hello.mutable_hello()->set_addresses(
          0, absl::StrCat("127.0.0.1:", 1000 + rank));
      members_.emplace_back(world_.address(), Framed(hello));
    }
    host().Start(&BootstrapAsHost);
    for (Stranger& member : members_) {
      SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage accepted,
                                 member.Receive());
      ASSERT_TRUE(accepted.has_hello_accepted());
    }
    for (Stranger& member : members_) {
      SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage message,
                                 member.Receive());
      ASSERT_TRUE(message.has_welcome());
      welcome_ = message.welcome();
    }
  }

  Stranger& member(int rank) { return members_[rank - 1]; }

  // Opens the collective link of a member.
  Stranger Link(int rank) {
    Stranger link(world_.address(),
                  Framed(GoodLinkHello(welcome_.session(), rank, 0,
                                       comm::LinkHello::COLLECTIVE)));
    EXPECT_TRUE(link.Receive()->has_link_accepted());
    return link;
  }

  void SendReady(int rank) {
    comm::BootstrapMessage message;
    message.mutable_ready();
    member(rank).Send(message);
  }

  // What the member is told as the end of the attempt.
  absl::Status ToldFailure(int rank) {
    const absl::StatusOr<comm::BootstrapMessage> message =
        member(rank).Receive();
    if (!message.ok()) return message.status();
    return FailureStatus(message->failure());
  }

  World world_;
  std::vector<Stranger> members_;
  comm::Welcome welcome_;
};

TEST_F(BootstrapHostTest, TellsAllOfAllAndHandsTheConnectionsOn) {
  host().options.options.slice_bytes = 4711;
  Start();
  EXPECT_EQ(welcome_.options().slice_bytes(), 4711u);
  ASSERT_EQ(welcome_.peers_size(), 3);
  EXPECT_EQ(welcome_.peers(0).addresses(0), world_.address());
  EXPECT_EQ(welcome_.peers(0).pid(), static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(welcome_.peers(1).addresses(0), "127.0.0.1:1001");
  EXPECT_EQ(welcome_.peers(2).addresses(0), "127.0.0.1:1002");
  EXPECT_EQ(welcome_.peers(2).pid(), 4711u);

  std::vector<Stranger> links;
  for (const int rank : {1, 2}) {
    links.push_back(Link(rank));
    SendReady(rank);
  }
  for (const int rank : {1, 2}) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage go,
                               member(rank).Receive());
    ASSERT_TRUE(go.has_go());
    // Whoever has Go may use the control link, and all others.
    member(rank).Send(absl::StrCat("control ", rank));
    links[rank - 1].Send(absl::StrCat("collective ", rank));
  }
  SHOAL_ASSERT_OK(host().Result());
  const JoinedWorld& joined = *host().Result();
  EXPECT_EQ(joined.session, welcome_.session());
  EXPECT_TRUE(joined.listener.valid());
  for (const int rank : {1, 2}) {
    EXPECT_EQ(ReadBytes(joined.control[rank].get(), 9),
              absl::StrCat("control ", rank));
    EXPECT_EQ(ReadBytes(joined.collective[rank].get(), 12),
              absl::StrCat("collective ", rank));
  }
}

// One rule for crowded machines and one for all.
AlgorithmPolicy PolicyWithARuleForCrowds() {
  AlgorithmRule rule;
  rule.kind = CallKind::kAllReduce;
  rule.algorithm = Algorithm::kTree;
  AlgorithmRule crowded = rule;
  crowded.algorithm = Algorithm::kDirect;
  crowded.crowded = true;
  AlgorithmPolicy policy;
  policy.rules = {crowded, rule};
  return policy;
}

TEST_F(BootstrapHostTest, ThreeRanksWithTwoCoresAreACrowd) {
  host().options.options.policy = PolicyWithARuleForCrowds();
  host().options.usable_cores = 2;
  Start();
  ASSERT_EQ(welcome_.options().algorithm_rules_size(), 2);
  EXPECT_EQ(welcome_.options().algorithm_rules(0).algorithm(),
            static_cast<std::uint32_t>(Algorithm::kDirect));
}

TEST_F(BootstrapHostTest, ThreeRanksWithThreeCoresAreNone) {
  host().options.options.policy = PolicyWithARuleForCrowds();
  host().options.usable_cores = 3;
  Start();
  ASSERT_EQ(welcome_.options().algorithm_rules_size(), 1);
  EXPECT_EQ(welcome_.options().algorithm_rules(0).algorithm(),
            static_cast<std::uint32_t>(Algorithm::kTree));
}

TEST_F(BootstrapHostTest, WhatOneMemberFindsOutIsToldToAll) {
  Start();
  member(1).Send(
      EncodeFrame(EncodeFailure(absl::NotFoundError("no way to rank 2"))));
  const auto expected =
      StatusIs(absl::StatusCode::kNotFound, "no way to rank 2");
  EXPECT_THAT(ToldFailure(1), expected);
  EXPECT_THAT(ToldFailure(2), expected);
  for (const int rank : {1, 2}) member(rank).Close();
  EXPECT_THAT(host().Result(), expected);
}

TEST_F(BootstrapHostTest, ReadyIsSaidOnce) {
  Start();
  SendReady(2);
  SendReady(2);
  const auto expected =
      StatusIs(absl::StatusCode::kDataLoss,
               testing::AllOf(HasSubstr("rank 2 (127.0.0.1:1002, pid 4711)"),
                              HasSubstr("out of turn")));
  EXPECT_THAT(ToldFailure(1), expected);
  EXPECT_THAT(host().Result(), expected);
}

TEST_F(BootstrapHostTest, TimeoutNamesTheRanksThatAreNotReady) {
  host().options.timeouts.join = absl::Seconds(1) * TimeoutScale();
  Start();
  const auto expected =
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               HasSubstr("ranks 1 and 2 of 3 had not connected to all others"));
  EXPECT_THAT(ToldFailure(2), expected);
  EXPECT_THAT(host().Result(), expected);
}

TEST_F(BootstrapHostTest, TimeoutNamesTheLinksThatRankZeroLacks) {
  host().options.timeouts.join = absl::Seconds(1) * TimeoutScale();
  Start();
  const Stranger link = Link(1);
  for (const int rank : {1, 2}) SendReady(rank);
  EXPECT_THAT(host().Result(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 0 had no link from rank 2 within")));
}

TEST_F(BootstrapHostTest, AListenerThatWasMovedFromIsRefused) {
  const TcpListener taken = *std::move(host().options.listener);
  host().Start(&BootstrapAsHost);
  EXPECT_THAT(host().Result(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("moved from")));
}

}  // namespace
}  // namespace shoal::internal
