// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/communicator_registry.h"

#include <poll.h>

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;

// A communicator that says what it is told to, and whose waiting thread is
// parked.
class FakeCommunicator : public ReportSource {
 public:
  explicit FakeCommunicator(CommunicatorId id)
      : waker_(Waker::Create().value()) {
    report_.communicator = id;
    waker_->PrepareToPark();
  }

  OperationReport Report() const override { return report_; }

  OperationReport& report() { return report_; }
  Waker* waker() { return waker_.get(); }

  void Enter(std::string operation) {
    report_.in_operation = true;
    report_.operation = std::move(operation);
  }

  // Whether it was woken since it was asked last.
  bool TakeWakeUp() {
    pollfd entry = {waker_->descriptor(), POLLIN, 0};
    const bool woken = poll(&entry, 1, 0) == 1;
    waker_->Unpark();
    waker_->PrepareToPark();
    return woken;
  }

 private:
  OperationReport report_;
  std::unique_ptr<Waker> waker_;
};

class CommunicatorRegistryTest : public testing::Test {
 protected:
  void Add(FakeCommunicator* communicator) {
    registry_.Add(communicator->report().communicator, communicator,
                  communicator->waker());
  }

  CommunicatorRegistry registry_;
  FakeCommunicator world_{kWorldId};
  FakeCommunicator row_{7};
  FakeCommunicator column_{9};
};

TEST_F(CommunicatorRegistryTest, SaysWhichOneIsTheLast) {
  Add(&world_);
  Add(&row_);
  EXPECT_FALSE(registry_.Remove(kWorldId));
  EXPECT_FALSE(registry_.Remove(9)) << "was never added";
  EXPECT_TRUE(registry_.Remove(7));
}

TEST_F(CommunicatorRegistryTest, WakesAllThatAreThere) {
  Add(&world_);
  Add(&row_);
  Add(&column_);
  registry_.Remove(7);
  EXPECT_FALSE(world_.TakeWakeUp());
  registry_.NotifyAll();
  EXPECT_TRUE(world_.TakeWakeUp());
  EXPECT_TRUE(column_.TakeWakeUp());
  EXPECT_FALSE(row_.TakeWakeUp()) << "had been removed";
}

TEST_F(CommunicatorRegistryTest, WakesOneThatComesAfterTheFailure) {
  registry_.NotifyAll();
  Add(&row_);
  EXPECT_TRUE(row_.TakeWakeUp());
}

TEST_F(CommunicatorRegistryTest, ReportsTheCommunicatorThatIsAskedFor) {
  row_.Enter("AllReduce(f32 x 100, sum, ring) #17");
  row_.report().members = {1, 4};
  row_.report().entered = 17;
  row_.report().last_completed = 16;
  row_.report().awaiting = {4};
  column_.Enter("Barrier #3");
  Add(&world_);
  Add(&row_);
  Add(&column_);
  const OperationReport report = registry_.Report(7);
  EXPECT_EQ(report.communicator, 7);
  EXPECT_THAT(report.members, ElementsAre(1, 4));
  EXPECT_EQ(report.entered, 17);
  EXPECT_EQ(report.last_completed, 16);
  EXPECT_TRUE(report.in_operation);
  EXPECT_TRUE(report.collective);
  EXPECT_EQ(report.operation, "AllReduce(f32 x 100, sum, ring) #17");
  EXPECT_THAT(report.awaiting, ElementsAre(4));
}

// The counts are those of the communicator that is asked for; only what keeps
// the rank busy is another one's.
TEST_F(CommunicatorRegistryTest, ReportsWhatKeepsTheRankBusyElsewhere) {
  world_.report().entered = 5;
  world_.report().last_completed = 5;
  column_.Enter("Barrier #3");
  column_.report().entered = 3;
  column_.report().last_completed = 2;
  Add(&world_);
  Add(&row_);
  Add(&column_);
  const OperationReport report = registry_.Report(kWorldId);
  EXPECT_EQ(report.communicator, kWorldId);
  EXPECT_EQ(report.entered, 5);
  EXPECT_EQ(report.last_completed, 5);
  EXPECT_TRUE(report.in_operation);
  EXPECT_FALSE(report.collective) << "it is none of the world's";
  EXPECT_EQ(report.operation, "Barrier #3");
}

TEST_F(CommunicatorRegistryTest, ReportsAnotherForOneThatIsNotHere) {
  row_.Enter("Send(u8 x 1, to rank 2)");
  Add(&world_);
  Add(&row_);
  for (const CommunicatorId id : {CommunicatorId{9}, kAnyCommunicator}) {
    const OperationReport report = registry_.Report(id);
    EXPECT_EQ(report.communicator, id);
    EXPECT_EQ(report.entered, 0);
    EXPECT_TRUE(report.in_operation);
    EXPECT_FALSE(report.collective);
    EXPECT_EQ(report.operation, "Send(u8 x 1, to rank 2)");
  }
}

TEST_F(CommunicatorRegistryTest, ReportsThatNothingIsUnderWay) {
  EXPECT_FALSE(registry_.Report(kWorldId).in_operation) << "nobody is here";
  row_.Enter("Barrier #1");
  Add(&world_);
  Add(&row_);
  registry_.Remove(7);
  const OperationReport report = registry_.Report(kAnyCommunicator);
  EXPECT_FALSE(report.in_operation);
  EXPECT_EQ(report.operation, "");
}

}  // namespace
}  // namespace shoal::internal
