// SPDX-License-Identifier: Apache-2.0
//
// Strangers, liars and the dying at the door of a world that is forming.

#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/bootstrap_test_world.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/stranger.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Each kind of stranger comes to rank 0 before the others and again once one of
// them is there; the job forms all the same, and the log names each.
TEST(BootstrapStrangerTest, StrangersAreDroppedWithALineAndTheJobGoesOn) {
  comm::BootstrapMessage wrong_job = GoodHello(1, 3);
  wrong_job.mutable_hello()->set_job_id("another job");
  comm::BootstrapMessage wrong_version = GoodHello(1, 3);
  wrong_version.mutable_hello()->set_protocol_version(77);
  comm::BootstrapMessage out_of_turn;
  out_of_turn.mutable_go();
  comm::BootstrapMessage early_link;
  early_link.mutable_link_hello()->set_job_id("test");
  comm::BootstrapMessage long_job = GoodHello(1, 3);
  long_job.mutable_hello()->set_job_id(std::string(5000, 'j'));
  std::string other_release = EncodeFrame("");
  other_release[4] = 9;
  const struct {
    std::string bytes;
    std::string line;
  } kStrangers[] = {
      {"GET / HTTP/1.1\r\n\r\n", "GET /"},
      {std::string("\0\0\0\0\0\0\0\0", 8), "its first bytes"},
      {EncodeFrame("\xff\xff\xff"), "cannot be parsed"},
      {EncodeFrame(""), "makes no sense"},
      {EncodeFrame(std::string(kMaxStrangerPayload + 1, 'x')),
       "65537 bytes, more than"},
      {other_release, "version 9"},
      {Framed(wrong_job), "of job \"another job\""},
      {Framed(wrong_version), "version 77"},
      {Framed(GoodHello(1, 4)), "counts 4 ranks"},
      {Framed(GoodHello(0, 3)), "rank 0, which is here already"},
      {Framed(GoodHello(3, 3)), "says that it is rank 3"},
      {Framed(out_of_turn), "did not begin with a hello"},
      {Framed(early_link), "did not begin with a hello"},
      {Framed(long_job), "makes no sense"},
  };
  World world(3);
  world.ranks[0]->Start();
  const auto let_strangers_come = [&] {
    for (const auto& kind : kStrangers) {
      SCOPED_TRACE(kind.line);
      Stranger stranger(world.address(), kind.bytes);
      const std::string name = stranger.own_address();
      stranger.AwaitEnd();
      world.ranks[0]->log.Await(name);
      bool found = false;
      for (const std::string& line : world.ranks[0]->log.lines()) {
        found |=
            absl::StrContains(line, name) && absl::StrContains(line, kind.line);
      }
      EXPECT_TRUE(found) << world.ranks[0]->log.lines().back();
    }
  };
  let_strangers_come();
  world.ranks[1]->Start();
  world.ranks[1]->states.Await("waiting");
  let_strangers_come();
  world.ranks[2]->Start();
  for (const auto& rank : world.ranks) SHOAL_EXPECT_OK(rank->Result());
  EXPECT_EQ(world.ranks[0]->log.lines().size(), 2 * std::size(kStrangers));
}

TEST(BootstrapStrangerTest, SilentOnesHaveToGoInTime) {
  World world(2);
  world.ranks[0]->options.hello_timeout = absl::Milliseconds(50);
  world.ranks[0]->Start();
  Stranger silent(world.address(), "");
  Stranger slow(world.address(), "SHO");
  silent.AwaitEnd();
  slow.AwaitEnd();
  world.ranks[0]->log.Await(silent.own_address());
  world.ranks[0]->log.Await(slow.own_address());
  // A rank on a starved machine might miss so short a time, too.
  EXPECT_THAT(world.ranks[0]->log.lines()[0], HasSubstr("in time"));
  world.ranks[1]->Start();
  SHOAL_EXPECT_OK(world.ranks[1]->Result());
  SHOAL_EXPECT_OK(world.ranks[0]->Result());
}

TEST(BootstrapStrangerTest, OnlySoManyMayBeSilentAtOnce) {
  World world(2);
  world.ranks[0]->options.hello_timeout = absl::Hours(1);
  world.ranks[0]->Start();
  std::vector<Stranger> crowd;
  for (std::size_t i = 0; i < kMaxSilentConnections + 20; ++i) {
    crowd.emplace_back(world.address(), "");
  }
  // The oldest had to go, the newest are still there, and so is the door.
  for (int i = 0; i < 20; ++i) crowd[i].AwaitEnd();
  world.ranks[0]->log.Await("too many connections say nothing");
  world.ranks[1]->Start();
  SHOAL_EXPECT_OK(world.ranks[1]->Result());
  SHOAL_EXPECT_OK(world.ranks[0]->Result());
}

TEST(BootstrapStrangerTest, TheLogFallsSilentAfterAHundredLines) {
  World world(2);
  world.ranks[0]->Start();
  for (int i = 0; i < 150; ++i) {
    Stranger stranger(world.address(), "nonsense");
    stranger.AwaitEnd();
  }
  world.ranks[1]->Start();
  SHOAL_EXPECT_OK(world.ranks[1]->Result());
  SHOAL_EXPECT_OK(world.ranks[0]->Result());
  EXPECT_EQ(world.ranks[0]->log.lines().size(), 101u);
}

TEST(BootstrapStrangerTest, DisagreementOnTheWorldSizeIsToldToBoth) {
  World world(3);
  world.ranks[0]->options.timeouts.join =
      absl::Milliseconds(500) * TimeoutScale();
  world.ranks[1]->options.world_size = 4;
  world.ranks[0]->Start();
  world.ranks[1]->Start();
  const auto both_counts =
      AllOf(HasSubstr("rank 1"), HasSubstr("counts 4 ranks"),
            HasSubstr("rank 0 counts 3"), HasSubstr("same world size"));
  EXPECT_THAT(world.ranks[1]->Result(),
              StatusIs(absl::StatusCode::kFailedPrecondition, both_counts));
  EXPECT_THAT(world.ranks[0]->Result(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, both_counts));
}

TEST(BootstrapStrangerTest, ARankThatIsThereAlreadyIsTurnedAway) {
  World world(3);
  world.ranks[0]->Start();
  world.ranks[1]->Start();
  world.ranks[1]->states.Await("waiting");
  Rank second(1, 3, world.address());
  second.Start();
  EXPECT_THAT(second.Result(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1, which has joined already")));
  world.ranks[2]->Start();
  for (const auto& rank : world.ranks) SHOAL_EXPECT_OK(rank->Result());
}

TEST(BootstrapStrangerTest, AnotherJobAtTheAddressIsNamed) {
  World world(2);
  world.ranks[0]->Start();
  Rank lost(1, 2, world.address());
  lost.options.job_id = "lost";
  lost.Start();
  EXPECT_THAT(lost.Result(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("\"lost\""), HasSubstr("\"test\""))));
  world.ranks[1]->Start();
  SHOAL_EXPECT_OK(world.ranks[1]->Result());
}

// Whatever answers at the address that is not rank 0 may be gone later.
TEST(BootstrapStrangerTest, ServerThatIsNotRankZeroIsNamedAtTheTimeout) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  Rank rank(1, 2, listener.address());
  rank.options.timeouts.join = absl::Milliseconds(500) * TimeoutScale();
  rank.Start();
  const GuardedDescriptor server = AwaitConnection(listener.descriptor());
  SendBytes(server.get(), "220 mail.example ESMTP\r\n");
  EXPECT_THAT(rank.Result(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                      HasSubstr(listener.address())));
}

TEST(BootstrapStrangerTest, DeathOfARankBeforeAllAreThereIsToldToAll) {
  World world(4);
  world.ranks[0]->Start();
  world.ranks[1]->Start();
  world.ranks[1]->states.Await("waiting");
  Stranger dying(world.address(), Framed(GoodHello(2, 4)));
  SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage answer,
                             dying.Receive());
  ASSERT_TRUE(answer.has_hello_accepted());
  dying.Close();
  for (const int rank : {0, 1}) {
    EXPECT_THAT(world.ranks[rank]->Result(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("rank 2 (127.0.0.1:1, pid 4711) died")))
        << rank;
  }
}

TEST(BootstrapStrangerTest, DeathOfARankWhileLinksAreMadeIsToldToAll) {
  World world(4);
  for (const int rank : {0, 1, 2}) world.ranks[rank]->Start();
  Stranger dying(world.address(), Framed(GoodHello(3, 4)));
  SHOAL_ASSERT_OK_AND_ASSIGN(comm::BootstrapMessage answer, dying.Receive());
  SHOAL_ASSERT_OK_AND_ASSIGN(answer, dying.Receive());
  ASSERT_TRUE(answer.has_welcome());
  EXPECT_EQ(answer.welcome().peers_size(), 4);
  dying.Close();
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(world.ranks[rank]->Result(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("rank 3 (127.0.0.1:1, pid 4711) died")))
        << rank;
  }
}

// Rank 0, played by the test, dies after it has accepted the hello.
TEST(BootstrapStrangerTest, DeathOfRankZeroIsNamed) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  Rank rank(1, 2, listener.address());
  rank.Start();
  Stranger zero(AwaitConnection(listener.descriptor()));
  comm::BootstrapMessage accepted;
  accepted.mutable_hello_accepted();
  zero.Send(accepted);
  rank.states.Await("waiting");
  zero.Close();
  EXPECT_THAT(rank.Result(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 0"), HasSubstr(listener.address()),
                             HasSubstr("died"))));
}

TEST(BootstrapStrangerTest, AnAcceptedRankThatLiesEndsTheAttempt) {
  World world(2);
  world.ranks[0]->Start();
  Stranger liar(world.address(), Framed(GoodHello(1, 2)));
  comm::BootstrapMessage go;
  go.mutable_go();
  liar.Send(Framed(go));
  EXPECT_THAT(world.ranks[0]->Result(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("rank 1"), HasSubstr("out of turn"))));
}

// A link is given to the ranks of this run of this job only.
TEST(BootstrapStrangerTest, LinksNeedTheSession) {
  World world(2);
  world.ranks[0]->Start();
  Stranger fake(world.address(), Framed(GoodHello(1, 2)));
  SHOAL_ASSERT_OK_AND_ASSIGN(comm::BootstrapMessage answer, fake.Receive());
  SHOAL_ASSERT_OK_AND_ASSIGN(answer, fake.Receive());
  ASSERT_TRUE(answer.has_welcome());
  comm::BootstrapMessage message = GoodLinkHello(
      answer.welcome().session() + 1, 1, 0, comm::LinkHello::COLLECTIVE);
  comm::LinkHello* const hello = message.mutable_link_hello();
  const auto ask = [&] {
    Stranger link(world.address(), Framed(message));
    const absl::StatusOr<comm::BootstrapMessage> got = link.Receive();
    return got.ok() && got->has_link_accepted() ? "accepted"
           : got.ok()                           ? got->failure().text()
                                                : got.status().ToString();
  };
  EXPECT_THAT(ask(), HasSubstr("another run"));
  hello->set_session(answer.welcome().session());
  hello->set_to(1);
  EXPECT_THAT(ask(), HasSubstr("looks for rank 1"));
  hello->set_to(0);
  hello->set_from(2);
  EXPECT_THAT(ask(), HasSubstr("says that it is rank 2"));
  hello->set_from(1);
  hello->set_purpose(comm::LinkHello::CONTROL);
  EXPECT_THAT(ask(), HasSubstr("should not ask for"));
  hello->set_purpose(static_cast<comm::LinkHello::Purpose>(99));
  EXPECT_THAT(ask(), HasSubstr("should not ask for"));
  hello->set_purpose(comm::LinkHello::COLLECTIVE);
  EXPECT_EQ(ask(), "accepted");
  EXPECT_THAT(ask(), HasSubstr("there already"));
  fake.Close();
  EXPECT_THAT(world.ranks[0]->Result(),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(BootstrapStrangerTest, LoopbackAddressesAreNotGivenToOtherHosts) {
  World world(3);
  world.ranks[2]->options.host_id = "another machine";
  world.StartAll();
  for (const auto& rank : world.ranks) {
    EXPECT_THAT(rank->Result(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("loopback"), HasSubstr("rank 1"),
                               HasSubstr("rank 2"))));
  }
}

}  // namespace
}  // namespace shoal::internal
