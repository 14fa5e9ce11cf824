// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_job.h"

#include <poll.h>
#include <sys/socket.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/bootstrap_test_world.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/link_inbox.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_point_to_point_links.h"
#include "shoal/comm/tcp_socket.h"
#include "shoal/comm/timeouts.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The ranks of a world that has formed, each with its job, or without one when
// the test plays the rank.
class TcpJobTest : public testing::Test {
 protected:
  void Form(int world_size) {
    World world(world_size);
    world.StartAll();
    for (const auto& rank : world.ranks) {
      SHOAL_ASSERT_OK(rank->Result());
      joined_.push_back(*std::move(rank->Result()));
    }
  }

  void StartJob(int rank, Timeouts timeouts = Timeouts()) {
    const int world_size = static_cast<int>(joined_.size());
    jobs_.resize(world_size);
    TcpJobOptions options;
    options.rank = rank;
    options.world_size = world_size;
    options.job_id = "test";
    options.session = joined_[rank].session;
    for (int peer = 0; peer < world_size; ++peer) {
      options.rank_names.push_back(RankName(peer, joined_[rank].peers[peer]));
    }
    options.timeouts = timeouts;
    options.listener = std::move(joined_[rank].listener);
    options.control = std::move(joined_[rank].control);
    options.log = [this](absl::string_view line) { log_.Add(line); };
    jobs_[rank] = TcpJob::Create(std::move(options)).value();
  }

  // A communicator of the job that says `report` of itself.
  struct Member final : public ReportSource {
    OperationReport Report() const override { return report; }
    const std::unique_ptr<Waker> waker = Waker::Create().value();
    OperationReport report;
  };

  Member& AddCommunicator(int rank) {
    Member& member = members_[rank];
    jobs_[rank]->AddCommunicator(kWorldId, &member, member.waker.get());
    return member;
  }

  // Waits until the job of `rank` has failed, parked as a communicator does it.
  absl::Status AwaitFailure(int rank) {
    constexpr CommunicatorId kExtra = 99;
    const Member member;
    Waker* const waker = member.waker.get();
    jobs_[rank]->AddCommunicator(kExtra, &member, waker);
    while (!jobs_[rank]->failed()) {
      waker->PrepareToPark();
      if (!jobs_[rank]->failed()) {
        pollfd entry = {waker->descriptor(), POLLIN, 0};
        poll(&entry, 1, -1);
      }
      waker->Unpark();
    }
    const absl::Status status = jobs_[rank]->status();
    AddCommunicator(rank);  // so that this is not the last one
    jobs_[rank]->RemoveCommunicator(kExtra);
    return status;
  }

  // Leaves in good order, all ranks at once.
  void Leave() {
    for (const auto& job : jobs_) {
      if (job != nullptr) job->RemoveCommunicator(kWorldId);
    }
    std::vector<std::thread> threads;
    for (auto& job : jobs_) {
      threads.emplace_back([&job] { job = nullptr; });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<JoinedWorld> joined_;
  std::map<int, Member> members_;
  std::vector<std::shared_ptr<TcpJob>> jobs_;
  Lines log_;
};

TEST_F(TcpJobTest, LeavingIsNoFailure) {
  Form(4);
  for (int rank = 0; rank < 4; ++rank) StartJob(rank);
  jobs_[2]->RemoveCommunicator(kWorldId);
  jobs_[2] = nullptr;
  jobs_[0]->RemoveCommunicator(kWorldId);
  jobs_[0] = nullptr;
  EXPECT_FALSE(jobs_[1]->failed());
  EXPECT_FALSE(jobs_[3]->failed());
  // The ends of their connections have come by now, or come while this waits:
  // they count as farewells.
  EXPECT_THAT(jobs_[1]->FailAfterLostLink(2, "Barrier #1"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("left")));
  Leave();
}

TEST_F(TcpJobTest, AFailureReachesAllRanks) {
  Form(5);
  for (int rank = 0; rank < 5; ++rank) StartJob(rank);
  jobs_[3]->Fail(3, absl::DataLossError("disk \xff full"));
  EXPECT_TRUE(jobs_[3]->failed());
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_THAT(AwaitFailure(rank),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("full")));
  }
  Leave();
}

// The reason is on its way when the rank that gives it goes.
TEST_F(TcpJobTest, AFailureReachesAllRanksThoughItsFinderLeaves) {
  Form(3);
  for (int rank = 0; rank < 3; ++rank) StartJob(rank);
  jobs_[1]->Fail(1, absl::AbortedError("enough"));
  jobs_[1] = nullptr;
  EXPECT_THAT(AwaitFailure(0), StatusIs(absl::StatusCode::kAborted, "enough"));
  EXPECT_THAT(AwaitFailure(2), StatusIs(absl::StatusCode::kAborted, "enough"));
  jobs_[0] = jobs_[2] = nullptr;
}

TEST_F(TcpJobTest, ADeadRankIsNamedOnAll) {
  Form(4);
  for (const int rank : {0, 1, 3}) StartJob(rank);
  const std::string name = RankName(2, joined_[2].peers[2]);
  joined_[2].control.clear();  // what the kernel does for a killed process
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(AwaitFailure(rank), StatusIs(absl::StatusCode::kUnavailable,
                                             HasSubstr(name + " died")));
  }
  Leave();
}

TEST_F(TcpJobTest, ARankThatTalksNonsenseIsNamed) {
  Form(3);
  for (const int rank : {0, 1}) StartJob(rank);
  ASSERT_EQ(send(joined_[2].control[0].get(), "nonsense", 8, MSG_NOSIGNAL), 8);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(AwaitFailure(rank),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 2")));
  }
  Leave();
}

TEST_F(TcpJobTest, ALostDataLinkOfARankThatLeftSaysSo) {
  Form(3);
  for (int rank = 0; rank < 3; ++rank) StartJob(rank);
  jobs_[1]->RemoveCommunicator(kWorldId);
  EXPECT_THAT(jobs_[0]->FailAfterLostLink(1, "Barrier #4"),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 1"), HasSubstr("left"),
                             HasSubstr("Barrier #4"))));
  EXPECT_THAT(AwaitFailure(2),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1")));
  Leave();
}

TEST_F(TcpJobTest, ALostDataLinkWithoutAReasonIsTheReason) {
  Form(2);
  for (int rank = 0; rank < 2; ++rank) StartJob(rank);
  EXPECT_THAT(jobs_[0]->FailAfterLostLink(1, "Barrier #4"),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 1"), HasSubstr("Barrier #4"))));
  Leave();
}

TEST_F(TcpJobTest, ATimeoutNamesTheSilentRank) {
  Form(3);
  for (const int rank : {0, 1}) StartJob(rank);
  // Rank 2 is there, and says nothing, like one that is stopped.
  OperationReport report;
  report.entered = 7;
  report.last_completed = 6;
  report.in_operation = true;
  report.operation = "AllReduce(f32 x 5, sum, ring) #7";
  report.awaiting = {1};
  const auto expected =
      AllOf(HasSubstr("rank 2"), HasSubstr("silent"),
            HasSubstr("AllReduce(f32 x 5, sum, ring) #7"), HasSubstr("2s"));
  EXPECT_THAT(jobs_[0]->FailAfterTimeout(report, absl::Seconds(2)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, expected));
  EXPECT_THAT(AwaitFailure(1),
              StatusIs(absl::StatusCode::kDeadlineExceeded, expected));
  Leave();
}

TEST_F(TcpJobTest, ATimeoutNamesTheRankThatIsBehind) {
  Timeouts patient;
  patient.answer_window = absl::Seconds(60);
  Form(3);
  for (int rank = 0; rank < 3; ++rank) StartJob(rank, patient);
  OperationReport report;
  report.entered = 6;
  report.last_completed = 6;
  for (int rank = 0; rank < 3; ++rank) AddCommunicator(rank).report = report;
  report.entered = 7;
  report.in_operation = true;
  report.operation = "Barrier(dissemination) #7";
  for (const int rank : {0, 2}) members_[rank].report = report;
  EXPECT_THAT(jobs_[2]->FailAfterTimeout(report, absl::Seconds(2)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("rank 1"), HasSubstr("alive"),
                             HasSubstr("last completed #6"))));
  Leave();
}

TEST_F(TcpJobTest, LinksComeFromRanksOfThisRunOnly) {
  Form(2);
  const std::string address = joined_[1].peers[1].addresses[0];
  comm::BootstrapMessage message;
  comm::LinkHello* const hello = message.mutable_link_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_job_id("test");
  hello->set_session(joined_[1].session);
  hello->set_from(0);
  hello->set_to(1);
  hello->set_purpose(comm::LinkHello::POINT_TO_POINT);
  const auto dial = [&address](const std::string& bytes) {
    return ConnectAndSend(Resolve(*ParseHostPort(address))->front(), bytes,
                          MonotonicNow() + absl::Seconds(60),
                          [] { return false; })
        .value();
  };
  const auto framed = [&message] {
    return EncodeFrame(EncodeBootstrap(message));
  };
  StartJob(0);
  StartJob(1);
  const std::shared_ptr<Waker> waker = Waker::Create().value();
  const std::shared_ptr<LinkInbox> inbox = jobs_[1]->world_inbox();
  inbox->SetWaker(waker);
  const auto has_links = [&inbox] {
    return inbox->Has(LinkPurpose::kPointToPoint);
  };

  const GuardedDescriptor garbage = dial("garbage");
  log_.Await("its first bytes");
  hello->set_session(joined_[1].session ^ 1);
  const GuardedDescriptor other_run = dial(framed());
  log_.Await("another run of it");
  hello->set_session(joined_[1].session);
  hello->set_purpose(comm::LinkHello::COLLECTIVE);
  const GuardedDescriptor other_purpose = dial(framed());
  log_.Await("should not ask for");
  EXPECT_FALSE(has_links());
  hello->set_purpose(comm::LinkHello::POINT_TO_POINT);
  // The first message follows the hello at once.
  const GuardedDescriptor good = dial(framed() + "payload");
  while (!has_links()) {
    waker->PrepareToPark();
    if (!has_links()) {
      pollfd entry = {waker->descriptor(), POLLIN, 0};
      poll(&entry, 1, -1);
    }
    waker->Unpark();
  }
  auto links = inbox->Take(LinkPurpose::kPointToPoint);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].first, 0);
  EXPECT_FALSE(has_links());
  char bytes[16];
  pollfd entry = {links[0].second.get(), POLLIN, 0};
  poll(&entry, 1, -1);
  EXPECT_EQ(recv(links[0].second.get(), bytes, sizeof bytes, 0), 7);
  EXPECT_EQ(std::string(bytes, 7), "payload");
  const GuardedDescriptor twice = dial(framed());
  while (log_.lines().size() < 4) std::this_thread::yield();
  EXPECT_FALSE(has_links());
  EXPECT_FALSE(jobs_[1]->failed());
  Leave();
}

// Links of a group come before this rank knows of the group, and go where its
// inbox is then opened.
TEST_F(TcpJobTest, LinksOfAGroupWaitForItsInbox) {
  constexpr CommunicatorId kGroup = (CommunicatorId{2} << 32) + 5;
  Form(3);
  for (int rank = 0; rank < 3; ++rank) StartJob(rank);
  const LinkExpectation self = {"test", joined_[2].session, 2, 3};
  const SocketAddress address =
      Resolve(*ParseHostPort(joined_[0].peers[0].addresses[0]))->front();
  const auto dial = [&](comm::LinkHello::Purpose purpose, CommunicatorId id) {
    return ConnectAndSend(address, EncodeLinkHello(self, 0, purpose, id),
                          MonotonicNow() + absl::Seconds(60),
                          [] { return false; })
        .value();
  };
  const GuardedDescriptor early = dial(comm::LinkHello::COLLECTIVE, kGroup);
  // Nobody sends messages before the group is there.
  const GuardedDescriptor message =
      dial(comm::LinkHello::POINT_TO_POINT, kGroup);
  log_.Await("that this rank has destroyed");
  const std::shared_ptr<Waker> waker = Waker::Create().value();
  const auto inbox =
      std::make_shared<LinkInbox>(std::set<int>{2}, std::set<int>{2}, waker);
  jobs_[0]->OpenInbox(kGroup, inbox);
  while (!inbox->Has(LinkPurpose::kCollective)) std::this_thread::yield();
  EXPECT_EQ(inbox->Take(LinkPurpose::kCollective)[0].first, 2);
  EXPECT_FALSE(jobs_[0]->world_inbox()->Has(LinkPurpose::kPointToPoint));
  const GuardedDescriptor good = dial(comm::LinkHello::POINT_TO_POINT, kGroup);
  while (!inbox->Has(LinkPurpose::kPointToPoint)) std::this_thread::yield();
  jobs_[0]->CloseInbox(kGroup);
  const GuardedDescriptor late = dial(comm::LinkHello::POINT_TO_POINT, kGroup);
  while (log_.lines().size() < 2) std::this_thread::yield();
  Leave();
}

// Rank 1 takes nothing any more, so that its goodbye never leaves.
TEST_F(TcpJobTest, ClosingEndsThoughAPeerTakesNothing) {
  Form(2);
  const std::string piece(65536, 'x');
  while (send(joined_[0].control[1].get(), piece.data(), piece.size(),
              MSG_NOSIGNAL) > 0) {
  }
  Timeouts timeouts;
  timeouts.close = absl::Milliseconds(100);
  StartJob(0, timeouts);
  jobs_[0]->RemoveCommunicator(kWorldId);
  const absl::Time start = MonotonicNow();
  jobs_[0] = nullptr;
  EXPECT_GE(MonotonicNow() - start, absl::Milliseconds(100));
}

}  // namespace
}  // namespace shoal::internal
