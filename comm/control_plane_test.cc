// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/control_plane.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/failure_domain.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kGrace = absl::Milliseconds(200);
constexpr absl::Duration kWindow = absl::Milliseconds(500);
const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

std::vector<std::string> Names(int world_size) {
  std::vector<std::string> names;
  for (int rank = 0; rank < world_size; ++rank) {
    names.push_back(absl::StrCat("rank ", rank, " (host:", rank, ")"));
  }
  return names;
}

OperationReport Report(std::uint64_t entered, std::vector<int> awaiting) {
  OperationReport report;
  report.entered = entered;
  report.last_completed = entered - 1;
  report.in_operation = true;
  report.operation = absl::StrCat("Barrier(dissemination) #", entered);
  report.awaiting = std::move(awaiting);
  return report;
}

// Rank 0 of 4, with the test as its links and its clock.
class ControlPlaneTest : public testing::Test {
 protected:
  ControlPlaneTest()
      : plane_(0, Names(4), {kGrace, kWindow},
               [this](CommunicatorId) { return report_; }) {}

  std::vector<std::pair<int, ControlMessage>> TakeAll() {
    std::vector<std::pair<int, ControlMessage>> messages;
    std::pair<int, ControlMessage> next;
    while (plane_.TakeOutgoing(&next.first, &next.second)) {
      messages.push_back(next);
    }
    return messages;
  }

  // The ranks that are told, when every message is of one kind.
  std::vector<int> Told(ControlKind kind) {
    std::vector<int> ranks;
    for (const auto& [peer, message] : TakeAll()) {
      EXPECT_EQ(message.kind, kind);
      ranks.push_back(peer);
    }
    return ranks;
  }

  void Answer(int peer, const OperationReport& report, std::uint64_t query) {
    ControlMessage answer;
    answer.kind = ControlKind::kAnswer;
    answer.query = query;
    answer.report = report;
    plane_.OnMessage(peer, answer);
  }

  static ControlMessage Goodbye() { return ControlMessage(); }

  OperationReport report_;
  ControlPlane plane_;
};

TEST_F(ControlPlaneTest, AnAbortReachesAllAndTheFirstStays) {
  plane_.OnLocalFailure(0, absl::DataLossError("first"));
  plane_.OnLocalFailure(0, absl::InternalError("second"));
  EXPECT_THAT(plane_.status(), StatusIs(absl::StatusCode::kDataLoss, "first"));
  EXPECT_EQ(plane_.culprit(), 0);
  const auto messages = TakeAll();
  ASSERT_EQ(messages.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(messages[i].first, i + 1);
    EXPECT_EQ(messages[i].second.kind, ControlKind::kAbort);
    EXPECT_EQ(messages[i].second.culprit, 0);
    EXPECT_EQ(messages[i].second.code,
              static_cast<int>(absl::StatusCode::kDataLoss));
    EXPECT_EQ(messages[i].second.text, "first");
  }
}

TEST_F(ControlPlaneTest, AnAbortIsPassedOnOnce) {
  ControlMessage abort;
  abort.kind = ControlKind::kAbort;
  abort.culprit = 3;
  abort.code = static_cast<int>(absl::StatusCode::kUnavailable);
  abort.text = "rank 3 died";
  plane_.OnMessage(2, abort);
  EXPECT_THAT(plane_.status(),
              StatusIs(absl::StatusCode::kUnavailable, "rank 3 died"));
  EXPECT_EQ(plane_.culprit(), 3);
  EXPECT_THAT(Told(ControlKind::kAbort), testing::ElementsAre(1, 3));
  plane_.OnMessage(1, abort);
  EXPECT_TRUE(TakeAll().empty());
}

TEST_F(ControlPlaneTest, WhatAPeerSaysIsChecked) {
  ControlMessage abort;
  abort.kind = ControlKind::kAbort;
  abort.culprit = 99;
  abort.code = 0;  // an abort without an error
  abort.text = std::string(100000, 'x');
  plane_.OnMessage(2, abort);
  EXPECT_EQ(plane_.status().code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(plane_.status().message().size(), ControlMessage::kMaxTextBytes);
  EXPECT_EQ(plane_.culprit(), -1);
  ControlMessage unknown;
  unknown.kind = static_cast<ControlKind>(77);
  TakeAll();
  plane_.OnMessage(1, unknown);
  EXPECT_TRUE(TakeAll().empty());
}

TEST_F(ControlPlaneTest, AnEndWithoutGoodbyeIsADeathAfterTheGrace) {
  plane_.OnEndOfStream(2, "Connection reset by peer", kStart);
  plane_.Tick(kStart + kGrace - absl::Milliseconds(1));
  EXPECT_FALSE(plane_.failed());
  EXPECT_EQ(plane_.next_tick(), kStart + kGrace);
  plane_.Tick(kStart + kGrace);
  EXPECT_THAT(plane_.status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 2 (host:2) died"),
                             HasSubstr("Connection reset by peer"))));
  EXPECT_EQ(plane_.culprit(), 2);
  EXPECT_THAT(Told(ControlKind::kAbort), testing::ElementsAre(1, 3));
  EXPECT_EQ(plane_.next_tick(), absl::InfiniteFuture());
}

TEST_F(ControlPlaneTest, ABetterReasonWithinTheGraceWins) {
  plane_.OnEndOfStream(1, "", kStart);
  ControlMessage abort;
  abort.kind = ControlKind::kAbort;
  abort.culprit = 2;
  abort.code = static_cast<int>(absl::StatusCode::kUnavailable);
  abort.text = "rank 2 died";
  plane_.OnMessage(3, abort);
  plane_.Tick(kStart + kGrace);
  EXPECT_EQ(plane_.culprit(), 2);
}

TEST_F(ControlPlaneTest, OfTwoDeathsTheFirstIsNamed) {
  plane_.OnEndOfStream(3, "", kStart);
  plane_.OnEndOfStream(1, "", kStart + absl::Milliseconds(5));
  plane_.Tick(kStart + absl::Seconds(1));
  EXPECT_EQ(plane_.culprit(), 3);
}

TEST_F(ControlPlaneTest, AGoodbyeIsNoFailureUntilAnOperationNeedsTheRank) {
  plane_.OnMessage(2, Goodbye());
  EXPECT_TRUE(plane_.said_goodbye(2));
  plane_.OnEndOfStream(2, "", kStart);
  plane_.Tick(kStart + absl::Hours(1));
  EXPECT_FALSE(plane_.failed());
  plane_.OnDataLinkLost(2, "Barrier #4", kStart + absl::Hours(1));
  EXPECT_THAT(plane_.status(), StatusIs(absl::StatusCode::kUnavailable,
                                        AllOf(HasSubstr("rank 2 (host:2) left"),
                                              HasSubstr("Barrier #4"))));
}

TEST_F(ControlPlaneTest, AGoodbyeThatComesAfterTheLostLinkExplainsIt) {
  plane_.OnDataLinkLost(2, "Barrier #4", kStart);
  EXPECT_FALSE(plane_.failed());
  plane_.OnMessage(2, Goodbye());
  EXPECT_THAT(plane_.status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("left")));
}

TEST_F(ControlPlaneTest, ALostLinkToALivingRankIsTheReasonAfterTheGrace) {
  plane_.OnDataLinkLost(2, "Barrier #4", kStart);
  EXPECT_EQ(plane_.next_tick(), kStart + kGrace);
  plane_.Tick(kStart + kGrace);
  EXPECT_THAT(plane_.status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("data connection"), HasSubstr("rank 2"),
                             HasSubstr("Barrier #4"))));
}

TEST_F(ControlPlaneTest, AfterItsOwnGoodbyeARankBlamesNobody) {
  plane_.OnEndOfStream(1, "", kStart);
  plane_.OnGoodbye();
  EXPECT_THAT(Told(ControlKind::kGoodbye), testing::ElementsAre(2, 3));
  plane_.OnEndOfStream(2, "", kStart);
  plane_.Tick(kStart + absl::Hours(1));
  EXPECT_FALSE(plane_.failed());
}

TEST_F(ControlPlaneTest, QuestionsAreAnsweredInEveryState) {
  report_ = Report(17, {3});
  plane_.OnLocalFailure(0, absl::DataLossError("why"));
  plane_.OnGoodbye();
  TakeAll();
  ControlMessage query;
  query.kind = ControlKind::kQuery;
  query.query = 8;
  plane_.OnMessage(3, query);
  const auto messages = TakeAll();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].first, 3);
  EXPECT_EQ(messages[0].second.kind, ControlKind::kAnswer);
  EXPECT_EQ(messages[0].second.query, 8u);
  EXPECT_EQ(messages[0].second.report.entered, 17u);
  EXPECT_EQ(messages[0].second.report.operation, report_.operation);
}

TEST_F(ControlPlaneTest, ATimeoutBlamesTheRankThatDoesNotAnswer) {
  plane_.OnOperationTimeout(Report(17, {1}), absl::Seconds(2), kStart);
  const auto messages = TakeAll();
  ASSERT_EQ(messages.size(), 3u);
  const std::uint64_t query = messages[0].second.query;
  Answer(1, Report(17, {3}), query);
  Answer(2, Report(17, {3}), query);
  Answer(3, Report(17, {3}), query + 1);  // of another question
  plane_.Tick(kStart + kWindow - absl::Milliseconds(1));
  EXPECT_FALSE(plane_.failed());
  plane_.Tick(kStart + kWindow);
  EXPECT_THAT(
      plane_.status(),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("rank 0 (host:0)"),
                     HasSubstr("Barrier(dissemination) #17"), HasSubstr("2s"),
                     HasSubstr("rank 3 (host:3), silent"))));
  EXPECT_EQ(plane_.culprit(), 3);
}

TEST_F(ControlPlaneTest, ATimeoutInDifferentCallsIsAMismatch) {
  plane_.OnOperationTimeout(Report(17, {1}), absl::Seconds(2), kStart);
  const std::uint64_t query = TakeAll()[0].second.query;
  OperationReport other = Report(17, {0});
  other.operation = "AllReduce(f32 x 3, sum, ring) #17";
  Answer(1, Report(17, {3}), query);
  Answer(2, other, query);
  Answer(3, Report(16, {}), query);
  EXPECT_THAT(
      plane_.status(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rank 2 (host:2) called AllReduce(f32 x 3, sum, "
                               "ring) #17"),
                     HasSubstr("rank 0 (host:0) called "
                               "Barrier(dissemination) #17"))));
  EXPECT_EQ(plane_.culprit(), 2);
}

TEST_F(ControlPlaneTest, ATimeoutBlamesTheRankThatIsBehind) {
  plane_.OnOperationTimeout(Report(17, {1}), absl::Seconds(2), kStart);
  const std::uint64_t query = TakeAll()[0].second.query;
  OperationReport behind = Report(16, {});
  behind.last_completed = 16;
  behind.in_operation = false;
  Answer(1, Report(17, {3}), query);
  Answer(2, behind, query);
  EXPECT_FALSE(plane_.failed());
  Answer(3, Report(17, {2}), query);  // all have answered
  EXPECT_THAT(plane_.status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 2 (host:2), alive, last completed #16, "
                                 "in no call")));
  EXPECT_EQ(plane_.culprit(), 2);
}

TEST_F(ControlPlaneTest, ATimeoutWithAllThereBlamesTheAwaitedRank) {
  plane_.OnOperationTimeout(Report(17, {3}), absl::Seconds(2), kStart);
  const std::uint64_t query = TakeAll()[0].second.query;
  for (const int peer : {1, 2, 3}) Answer(peer, Report(17, {0}), query);
  EXPECT_THAT(plane_.status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 3 (host:3), alive, in Barrier")));
}

TEST_F(ControlPlaneTest, AMessagesTimeoutDoesNotCountCollectives) {
  OperationReport late = Report(17, {3});
  late.collective = false;
  plane_.OnOperationTimeout(late, absl::Seconds(2), kStart);
  const std::uint64_t query = TakeAll()[0].second.query;
  Answer(1, Report(2, {}), query);
  Answer(2, Report(2, {}), query);
  Answer(3, Report(16, {}), query);
  EXPECT_EQ(plane_.culprit(), 3);
}

TEST_F(ControlPlaneTest, ADeathDuringTheQuestionIsADeath) {
  plane_.OnOperationTimeout(Report(17, {3}), absl::Seconds(2), kStart);
  const std::uint64_t query = TakeAll()[0].second.query;
  plane_.OnEndOfStream(3, "", kStart + kWindow - absl::Milliseconds(1));
  Answer(1, Report(17, {3}), query);
  Answer(2, Report(17, {3}), query);
  EXPECT_FALSE(plane_.failed());
  // Not before its grace is over: a better reason may be on its way.
  const absl::Time due = kStart + kWindow - absl::Milliseconds(1) + kGrace;
  plane_.Tick(kStart + kWindow);
  EXPECT_FALSE(plane_.failed());
  EXPECT_EQ(plane_.next_tick(), due);
  plane_.Tick(due);
  EXPECT_THAT(plane_.status(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("rank 3 (host:3) died")));
}

// Rank 1 waits in #17 for rank 3, rank 0 in #18 for rank 1.
TEST_F(ControlPlaneTest, ATimeoutBlamesTheRankThatIsFurthestBehind) {
  plane_.OnOperationTimeout(Report(18, {1}), absl::Seconds(2), kStart);
  const std::uint64_t query = TakeAll()[0].second.query;
  OperationReport idle;
  idle.entered = 16;
  idle.last_completed = 16;
  Answer(1, Report(17, {3}), query);
  Answer(2, Report(17, {3}), query);
  Answer(3, idle, query);
  EXPECT_THAT(plane_.status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 3 (host:3), alive, last completed #16, "
                                 "in no call")));
}

TEST_F(ControlPlaneTest, ASuspectIsJudgedBeforeARankThatLeft) {
  plane_.OnEndOfStream(2, "", kStart);
  plane_.OnMessage(3, Goodbye());
  plane_.OnDataLinkLost(3, "Barrier #4", kStart + absl::Milliseconds(1));
  EXPECT_FALSE(plane_.failed());
  plane_.Tick(kStart + kGrace);
  EXPECT_EQ(plane_.culprit(), 2);
}

TEST_F(ControlPlaneTest, ADeathSaysWhatThisRankWasDoing) {
  report_ = Report(17, {2});
  plane_.OnEndOfStream(2, "", kStart);
  plane_.Tick(kStart + kGrace);
  EXPECT_THAT(plane_.status().message(),
              HasSubstr("while rank 0 (host:0) was in Barrier(dissemination) "
                        "#17"));
}

TEST_F(ControlPlaneTest, ARankThatIsLeavingIsNotSilent) {
  plane_.OnMessage(1, Goodbye());
  plane_.OnOperationTimeout(Report(17, {2}), absl::Seconds(2), kStart);
  const std::uint64_t query = TakeAll()[0].second.query;
  Answer(2, Report(17, {0}), query);
  Answer(3, Report(17, {0}), query);
  EXPECT_FALSE(plane_.failed());
  plane_.Tick(kStart + kWindow);
  EXPECT_EQ(plane_.culprit(), 2);
}

TEST_F(ControlPlaneTest, RanksThatLeftNeedNotAnswer) {
  for (const int peer : {1, 2}) {
    plane_.OnMessage(peer, Goodbye());
    plane_.OnEndOfStream(peer, "", kStart);
  }
  plane_.OnMessage(3, Goodbye());
  plane_.OnEndOfStream(3, "", kStart);
  plane_.OnOperationTimeout(Report(17, {3}), absl::Seconds(2), kStart);
  EXPECT_THAT(plane_.status(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("rank 3 (host:3) left")));
}

}  // namespace
}  // namespace shoal::internal
