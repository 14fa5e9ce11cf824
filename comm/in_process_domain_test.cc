// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/in_process_domain.h"

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Call AllReduceCall() {
  Call call;
  call.signature.kind = CallKind::kAllReduce;
  call.signature.dtype = DType::kF32;
  call.signature.algorithm = Algorithm::kRing;
  call.signature.count = 10;
  return call;
}

OperationReport LateReport(std::uint64_t sequence) {
  OperationReport report;
  report.entered = sequence;
  report.last_completed = sequence - 1;
  report.in_operation = true;
  report.operation = "AllReduce(f32 x 10, sum, ring) #5";
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
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Waker> stays, Waker::Create());
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Waker> leaves, Waker::Create());
  domains[0]->AddWaker(stays.get());
  domains[1]->AddWaker(leaves.get());
  domains[1]->RemoveWaker(leaves.get());
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
  const auto domains = MakeInProcessDomains(4);
  for (const int rank : {0, 1, 2}) {
    domains[rank]->Enter(5, AllReduceCall());
  }
  domains[3]->Enter(4, AllReduceCall());
  domains[3]->Leave(4, AllReduceCall(), /*completed=*/true);
  EXPECT_THAT(
      domains[0]->FailAfterTimeout(LateReport(5), absl::Seconds(2)),
      StatusIs(
          absl::StatusCode::kDeadlineExceeded,
          AllOf(HasSubstr("rank 0"),
                HasSubstr("AllReduce(f32 x 10, sum, ring) #5"), HasSubstr("2s"),
                HasSubstr("rank 3, alive, last completed #4, in no "
                          "call"))));
}

TEST(InProcessDomainTest, ATimeoutWithAllRanksThereNamesTheAwaitedOne) {
  const auto domains = MakeInProcessDomains(3);
  for (const auto& domain : domains) domain->Enter(5, AllReduceCall());
  EXPECT_THAT(domains[0]->FailAfterTimeout(LateReport(5), absl::Seconds(2)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 2 is awaited, in AllReduce(f32 x 10")));
}

TEST(InProcessDomainTest, AMessagesTimeoutSaysWhatTheOtherRankDoes) {
  const auto domains = MakeInProcessDomains(3);
  domains[2]->Enter(7, AllReduceCall());
  OperationReport report = LateReport(1);
  report.collective = false;
  report.operation = "Recv(f32 x 1 from rank 2, tag 0) #1";
  EXPECT_THAT(domains[0]->FailAfterTimeout(report, absl::Seconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 2 is awaited, in AllReduce")));
}

TEST(InProcessDomainTest, ATimeoutInDifferentCallsIsAMismatch) {
  const auto domains = MakeInProcessDomains(3);
  Call other = AllReduceCall();
  other.signature.kind = CallKind::kBarrier;
  domains[0]->Enter(5, AllReduceCall());
  domains[1]->Enter(5, other);
  domains[2]->Enter(5, AllReduceCall());
  EXPECT_THAT(
      domains[0]->FailAfterTimeout(LateReport(5), absl::Seconds(1)),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rank 1 called Barrier(ring) #5"),
                     HasSubstr("rank 0 called AllReduce(f32 x 10, sum, ring) "
                               "#5"))));
}

TEST(InProcessDomainTest, ARankThatLeftIsNotBehind) {
  const auto domains = MakeInProcessDomains(3);
  domains[1]->BeginClose();
  domains[0]->Enter(5, AllReduceCall());
  domains[2]->Enter(5, AllReduceCall());
  EXPECT_THAT(domains[0]->FailAfterTimeout(LateReport(5), absl::Seconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 2 is awaited")));
}

}  // namespace
}  // namespace shoal::internal
