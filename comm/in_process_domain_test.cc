// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/in_process_domain.h"

#include <poll.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kAllReduce5[] = "AllReduce(f32 x 10, sum, ring) #5";

// What a rank says of itself, as the test wants it.
struct Rank final : public ReportSource {
  explicit Rank(const std::shared_ptr<FailureDomain>& domain,
                CommunicatorId id = kWorldId)
      : domain(domain), id(id) {
    report.communicator = id;
    report.entered = 4;
    report.last_completed = 4;
    domain->AddCommunicator(id, this, waker.get());
  }
  ~Rank() override { Leave(); }

  OperationReport Report() const override { return report; }

  // In the collective #5.
  void Enter(const std::string& operation) {
    report.entered = 5;
    report.in_operation = true;
    report.operation = operation;
  }
  void Leave() {
    if (domain != nullptr) domain->RemoveCommunicator(id);
    domain = nullptr;
  }

  std::shared_ptr<FailureDomain> domain;
  const CommunicatorId id;
  const std::unique_ptr<Waker> waker = Waker::Create().value();
  OperationReport report;
};

struct Ranks {
  explicit Ranks(int world_size) : domains(MakeInProcessDomains(world_size)) {
    for (int rank = 0; rank < world_size; ++rank) {
      ranks.emplace_back(domains[rank]);
    }
  }
  std::vector<std::shared_ptr<FailureDomain>> domains;
  std::deque<Rank> ranks;
};

OperationReport LateReport(std::uint64_t sequence) {
  OperationReport report;
  report.entered = sequence;
  report.last_completed = sequence - 1;
  report.in_operation = true;
  report.operation = kAllReduce5;
  report.awaiting = {2};
  return report;
}

bool IsReadable(int descriptor) {
  struct pollfd entry = {descriptor, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

TEST(InProcessDomainTest, TheFirstErrorIsEveryRanksError) {
  const auto domains = MakeInProcessDomains(3);
  ASSERT_EQ(domains.size(), 3u);
  for (const auto& domain : domains) {
    EXPECT_FALSE(domain->failed());
    SHOAL_EXPECT_OK(domain->status());
  }
  domains[1]->Fail(1, absl::DataLossError("first"));
  domains[2]->Fail(2, absl::InternalError("second"));
  for (const auto& domain : domains) {
    EXPECT_TRUE(domain->failed());
    EXPECT_THAT(domain->status(),
                StatusIs(absl::StatusCode::kDataLoss, "first"));
  }
}

TEST(InProcessDomainTest, WakesParkedRanks) {
  const auto domains = MakeInProcessDomains(2);
  Rank first(domains[0]);
  Rank second(domains[1]);
  second.Leave();
  Waker* const stays = first.waker.get();
  Waker* const leaves = second.waker.get();
  stays->PrepareToPark();
  leaves->PrepareToPark();
  EXPECT_FALSE(IsReadable(stays->descriptor()));
  domains[1]->Fail(1, absl::DataLossError("why"));
  EXPECT_TRUE(IsReadable(stays->descriptor()));
  EXPECT_FALSE(IsReadable(leaves->descriptor()));
  stays->Unpark();
  leaves->Unpark();
}

TEST(InProcessDomainTest, ALostLinkMeansThatTheRankLeft) {
  const auto domains = MakeInProcessDomains(3);
  EXPECT_THAT(domains[0]->FailAfterLostLink(2, "Barrier(dissemination) #4"),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 2 left"),
                             HasSubstr("Barrier(dissemination) #4"))));
  EXPECT_EQ(domains[1]->status(), domains[0]->status());
}

TEST(InProcessDomainTest, ATimeoutNamesTheRankThatHasNotEntered) {
  Ranks world(4);
  for (const int rank : {0, 1, 2}) world.ranks[rank].Enter(kAllReduce5);
  EXPECT_THAT(
      world.domains[0]->FailAfterTimeout(LateReport(5), absl::Seconds(2)),
      StatusIs(
          absl::StatusCode::kDeadlineExceeded,
          AllOf(HasSubstr("rank 0"), HasSubstr(kAllReduce5), HasSubstr("2s"),
                HasSubstr("rank 3, alive, last completed #4, in no "
                          "call"))));
}

TEST(InProcessDomainTest, ATimeoutWithAllRanksThereNamesTheAwaitedOne) {
  Ranks world(3);
  for (Rank& rank : world.ranks) rank.Enter(kAllReduce5);
  EXPECT_THAT(
      world.domains[0]->FailAfterTimeout(LateReport(5), absl::Seconds(2)),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               HasSubstr("rank 2 is awaited, in AllReduce(f32 x 10")));
}

TEST(InProcessDomainTest, AMessagesTimeoutSaysWhatTheOtherRankDoes) {
  Ranks world(3);
  world.ranks[2].Enter(kAllReduce5);
  OperationReport report = LateReport(1);
  report.collective = false;
  report.operation = "Recv(f32 x 1 from rank 2, tag 0) #1";
  EXPECT_THAT(world.domains[0]->FailAfterTimeout(report, absl::Seconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 2 is awaited, in AllReduce")));
}

TEST(InProcessDomainTest, ATimeoutInDifferentCallsIsAMismatch) {
  Ranks world(3);
  world.ranks[0].Enter(kAllReduce5);
  world.ranks[1].Enter("Barrier(ring) #5");
  world.ranks[2].Enter(kAllReduce5);
  EXPECT_THAT(
      world.domains[0]->FailAfterTimeout(LateReport(5), absl::Seconds(1)),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rank 1 called Barrier(ring) #5"),
                     HasSubstr(absl::StrCat("rank 0 called ", kAllReduce5)))));
}

TEST(InProcessDomainTest, ARankThatLeftIsNotBehind) {
  Ranks world(3);
  world.ranks[1].Leave();
  world.ranks[0].Enter(kAllReduce5);
  world.ranks[2].Enter(kAllReduce5);
  EXPECT_THAT(
      world.domains[0]->FailAfterTimeout(LateReport(5), absl::Seconds(1)),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               HasSubstr("rank 2 is awaited")));
}

// Ranks 1 and 3 are a group; what the others do is none of its business, unless
// a member is in it.
TEST(InProcessDomainTest, ATimeoutInAGroupIsAMatterOfItsMembers) {
  constexpr CommunicatorId kGroup = 7;
  Ranks world(4);
  Rank one(world.domains[1], kGroup);
  Rank three(world.domains[3], kGroup);
  one.Enter("Barrier(dissemination) #5");
  world.ranks[3].Enter(kAllReduce5);
  OperationReport report = LateReport(5);
  report.communicator = kGroup;
  report.members = {1, 3};
  report.awaiting = {3};
  EXPECT_THAT(world.domains[1]->FailAfterTimeout(report, absl::Seconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 3, alive, last completed #4, in "
                                 "AllReduce")));
}

}  // namespace
}  // namespace shoal::internal
