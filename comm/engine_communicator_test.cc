// SPDX-License-Identifier: Apache-2.0
//
// What the driver tells its failure domain, and what it makes of the answers.
// That the results of its calls are right is shown by the tests of the
// communicators that are made of it.

#include "shoal/comm/engine_communicator.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/call.h"
#include "shoal/comm/comm_stats.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine_driver.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/link.h"
#include "shoal/comm/memory_link.h"
#include "shoal/comm/pending_operation.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes down what it is told, and answers with errors that say who asked.
class FakeDomain final : public FailureDomain {
 public:
  bool failed() const override { return failed_.load(); }
  absl::Status status() const override {
    MutexLock lock(&mutex_);
    return status_;
  }
  void Fail(int culprit, const absl::Status& status) override {
    Note(absl::StrCat("fail ", culprit));
    Set(status).IgnoreError();
  }
  absl::Status FailAfterLostLink(int peer,
                                 const std::string& operation) override {
    Note(absl::StrCat("lost ", peer, " ", operation));
    return Set(absl::UnavailableError("the reason"));
  }
  absl::Status FailAfterTimeout(const OperationReport& report,
                                absl::Duration timeout) override {
    Note(absl::StrCat(
        "late ", report.operation, " after ", absl::FormatDuration(timeout),
        " entered ", report.entered, " completed ", report.last_completed,
        report.collective ? " collective" : " message", " awaiting ",
        report.awaiting.empty() ? -1 : report.awaiting.front()));
    return Set(absl::DeadlineExceededError("the culprit"));
  }
  void AddCommunicator(CommunicatorId /*id*/, const ReportSource* source,
                       Waker* waker) override {
    MutexLock lock(&mutex_);
    source_ = source;
    waker_ = waker;
  }
  void RemoveCommunicator(CommunicatorId /*id*/) override {
    Note("close");
    MutexLock lock(&mutex_);
    source_ = nullptr;
    waker_ = nullptr;
  }

  // What the communicator says of itself.
  OperationReport Report() const {
    MutexLock lock(&mutex_);
    return source_->Report();
  }
  bool has_waker() const {
    MutexLock lock(&mutex_);
    return waker_ != nullptr;
  }
  std::vector<std::string> TakeNotes() {
    MutexLock lock(&mutex_);
    return std::exchange(notes_, {});
  }

 private:
  void Note(std::string note) {
    MutexLock lock(&mutex_);
    notes_.push_back(std::move(note));
  }
  absl::Status Set(const absl::Status& status) {
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
    failed_.store(true);
    if (waker_ != nullptr) waker_->Notify();
    return status_;
  }

  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  const ReportSource* source_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Waker* waker_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

// Fails after a few tries.
class FailingOpening final : public LinkOpening {
 public:
  FailingOpening(int tries, absl::Status error)
      : tries_(tries), error_(std::move(error)) {}
  absl::StatusOr<std::unique_ptr<Link>> TryFinish() override {
    if (tries_-- > 0) return nullptr;
    return error_;
  }
  int descriptor() const override { return -1; }

 private:
  int tries_;
  const absl::Status error_;
};

// Opens nothing, with a given error.
class NoLinks final : public PointToPointLinks {
 public:
  NoLinks(int tries, absl::Status error)
      : tries_(tries), error_(std::move(error)) {}

  void SetWaker(std::shared_ptr<Waker> /*waker*/) override {}
  std::unique_ptr<LinkOpening> OpenOutgoing(int /*peer*/) override {
    return std::make_unique<FailingOpening>(tries_, error_);
  }
  bool HasIncoming() const override { return false; }
  std::vector<std::pair<int, std::unique_ptr<Link>>> TakeIncoming() override {
    return {};
  }

 private:
  const int tries_;
  const absl::Status error_;
};

// Says that it is readable, has nothing to read, and ends after a while: at an
// even or an odd number of tries.
class EndingLink final : public Link {
 public:
  explicit EndingLink(int more_tries) : more_tries_(more_tries) {}
  ~EndingLink() override { close(descriptor_); }

  LinkResult TryWrite(absl::Span<const struct iovec> /*pieces*/) override {
    return {LinkState::kWouldBlock, 0};
  }
  LinkResult TryRead(absl::Span<const struct iovec> /*pieces*/) override {
    if (absl::Now() < ends_ || more_tries_-- > 0) {
      return {LinkState::kWouldBlock, 0};
    }
    return {LinkState::kEnded, 0};
  }
  void ShutdownWrite() override {}
  int descriptor() const override { return descriptor_; }
  std::string end_reason() const override { return ""; }

 private:
  const int descriptor_ = eventfd(/*initval=*/1, EFD_CLOEXEC);
  // Long after the caller has begun to park.
  const absl::Time ends_ = absl::Now() + absl::Milliseconds(50);
  int more_tries_;
};

// A link that rank 1 has opened.
class OneIncomingLink final : public PointToPointLinks {
 public:
  explicit OneIncomingLink(std::unique_ptr<Link> link)
      : link_(std::move(link)) {}

  void SetWaker(std::shared_ptr<Waker> /*waker*/) override {}
  std::unique_ptr<LinkOpening> OpenOutgoing(int /*peer*/) override {
    return std::make_unique<FailingOpening>(
        0, absl::UnavailableError("no way there"));
  }
  bool HasIncoming() const override { return link_ != nullptr; }
  std::vector<std::pair<int, std::unique_ptr<Link>>> TakeIncoming() override {
    std::vector<std::pair<int, std::unique_ptr<Link>>> links;
    links.emplace_back(1, std::move(link_));
    return links;
  }

 private:
  std::unique_ptr<Link> link_;
};

// Rank 0 of 2, whose peer is a bare link that the test holds.
class EngineCommunicatorTest : public testing::Test {
 protected:
  void SetUp() override { Make(/*opening_tries=*/1); }

  void Make(int opening_tries) {
    Make(std::make_unique<NoLinks>(opening_tries,
                                   absl::UnavailableError("no way there")),
         absl::Milliseconds(30));
  }

  void Make(std::unique_ptr<PointToPointLinks> links, absl::Duration timeout) {
    absl::StatusOr<std::unique_ptr<Waker>> waker = Waker::Create();
    SHOAL_ASSERT_OK(waker);
    auto [here, there] = MakeMemoryLinkPair();
    peer_ = std::move(there);
    domain_ = std::make_shared<FakeDomain>();
    EngineCommunicatorOptions options;
    options.operation_timeout = timeout;
    EngineDriverOptions& driver = options.driver;
    driver.rank = 0;
    driver.world_size = 2;
    driver.links.resize(2);
    driver.links[1] = std::move(here);
    driver.point_to_point_links = std::move(links);
    driver.domain = domain_;
    driver.waker = *std::move(waker);
    driver.close_timeout = absl::Seconds(1);
    communicator_ = MakeEngineCommunicator(std::move(options));
  }

  Buffer values() { return BufferOf(absl::MakeSpan(values_)); }

  std::vector<float> values_ = std::vector<float>(3);
  std::unique_ptr<Link> peer_;
  std::shared_ptr<FakeDomain> domain_;
  std::unique_ptr<Communicator> communicator_;
};

TEST_F(EngineCommunicatorTest, ALostLinkBecomesTheDomainsReason) {
  peer_.reset();
  EXPECT_THAT(communicator_->AllReduce(values(), ReduceOp::kSum),
              StatusIs(absl::StatusCode::kUnavailable, "the reason"));
  EXPECT_THAT(
      domain_->TakeNotes(),
      ElementsAre("lost 1 AllReduce(f32 x 3, sum, recursive-doubling) #1"));
  // Later calls return it at once, and tell nobody.
  EXPECT_THAT(communicator_->Barrier(),
              StatusIs(absl::StatusCode::kUnavailable, "the reason"));
  EXPECT_THAT(domain_->TakeNotes(), ElementsAre());
}

TEST_F(EngineCommunicatorTest, ATimeoutIsReportedWithWhatIsAwaited) {
  EXPECT_THAT(communicator_->AllReduce(values(), ReduceOp::kSum),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "the culprit"));
  EXPECT_THAT(
      domain_->TakeNotes(),
      ElementsAre("late AllReduce(f32 x 3, sum, recursive-doubling) #1 after "
                  "30ms entered 1 completed 0 collective awaiting 1"));
  const OperationStats stats =
      communicator_->stats().by_kind.at(CallKind::kAllReduce);
  EXPECT_EQ(stats.succeeded, 0);
  EXPECT_EQ(stats.failed, 1);
  EXPECT_GE(stats.waiting, absl::Milliseconds(20)) << "there was nothing else";
}

TEST_F(EngineCommunicatorTest, ACallsOwnTimeoutWins) {
  CallOptions options;
  options.timeout = absl::Milliseconds(5);
  EXPECT_EQ(communicator_->Recv(values(), 1, 4, options).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(domain_->TakeNotes(),
              ElementsAre("late Recv(f32 x 3 from rank 1, tag 4) #1 [Recv(f32 "
                          "x 3 from rank 1, tag 4) has no connection yet] "
                          "after 5ms entered 0 completed 0 message awaiting "
                          "1"));
}

TEST_F(EngineCommunicatorTest, RubbishFailsTheJobAndNamesTheSender) {
  std::vector<char> rubbish(64, 'x');
  const struct iovec piece = {rubbish.data(), rubbish.size()};
  ASSERT_EQ(peer_->TryWrite({&piece, 1}).bytes, 64u);
  EXPECT_THAT(communicator_->Barrier(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("rank 1")));
  EXPECT_THAT(domain_->TakeNotes(), ElementsAre("fail 1"));
}

TEST_F(EngineCommunicatorTest, APeerThatCannotBeReachedIsALostOne) {
  EXPECT_THAT(communicator_->Send(values(), 1),
              StatusIs(absl::StatusCode::kUnavailable, "the reason"));
  EXPECT_THAT(domain_->TakeNotes(),
              ElementsAre("lost 1 Send(f32 x 3 to rank 1, tag 0) #1 (no way "
                          "there)"));
}

TEST_F(EngineCommunicatorTest, APeerThatIsNotReachedInTimeIsLate) {
  Make(/*opening_tries=*/1'000'000'000);
  EXPECT_THAT(communicator_->Send(values(), 1),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "the culprit"));
  EXPECT_THAT(domain_->TakeNotes(),
              ElementsAre("late Send(f32 x 3 to rank 1, tag 0) #1 [Send(f32 x "
                          "3 to rank 1, tag 0) has no connection yet] after "
                          "30ms entered 0 completed 0 message awaiting 1"));
}

// Whether the end is found by the last look before parking, or by another: a
// call that sleeps on it never returns.
TEST_F(EngineCommunicatorTest, AnEndFoundOnTheWayToParkIsNotSleptOn) {
  for (const int more_tries : {0, 1}) {
    Make(std::make_unique<OneIncomingLink>(
             std::make_unique<EndingLink>(more_tries)),
         absl::InfiniteDuration());
    EXPECT_THAT(communicator_->Recv(values(), 1),
                StatusIs(absl::StatusCode::kUnavailable, "the reason"));
  }
}

TEST_F(EngineCommunicatorTest, AFailureElsewhereWakesAParkedCall) {
  CallOptions options;
  options.timeout = absl::InfiniteDuration();
  std::thread call([this, &options] {
    EXPECT_THAT(communicator_->Recv(values(), 1, 0, options),
                StatusIs(absl::StatusCode::kDataLoss, "elsewhere"));
  });
  domain_->Fail(1, absl::DataLossError("elsewhere"));
  call.join();
}

TEST_F(EngineCommunicatorTest, AbortGoesToTheDomainWithThisRankAsCulprit) {
  communicator_->Abort(absl::AbortedError("enough"));
  EXPECT_THAT(domain_->TakeNotes(), ElementsAre("fail 0"));
  EXPECT_THAT(communicator_->Barrier(),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST_F(EngineCommunicatorTest, ClosingTellsTheDomainAndEndsTheLinks) {
  EXPECT_TRUE(domain_->has_waker());
  communicator_.reset();
  EXPECT_FALSE(domain_->has_waker());
  EXPECT_THAT(domain_->TakeNotes(), ElementsAre("close"));
  char byte = 0;
  const struct iovec piece = {&byte, 1};
  EXPECT_EQ(peer_->TryRead({&piece, 1}).state, LinkState::kEnded);
}

// The oldest collective that is not done stands for all that are under way.
TEST_F(EngineCommunicatorTest, ReportsWhatIsUnderWay) {
  CallOptions patient;
  patient.timeout = absl::InfiniteDuration();
  EXPECT_FALSE(domain_->Report().in_operation);
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation message,
                             communicator_->StartRecv(values(), 1, 0, patient));
  EXPECT_FALSE(domain_->Report().collective);
  EXPECT_EQ(domain_->Report().operation, "Recv(f32 x 3 from rank 1, tag 0) #1");
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation first,
                             communicator_->StartBarrier(patient));
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation second,
                             communicator_->StartBarrier(patient));
  const OperationReport report = domain_->Report();
  EXPECT_TRUE(report.in_operation);
  EXPECT_TRUE(report.collective);
  EXPECT_EQ(report.entered, 2u);
  EXPECT_EQ(report.last_completed, 0u);
  EXPECT_EQ(report.operation, "Barrier(dissemination) #1");
  communicator_->Abort(absl::AbortedError("enough"));
  for (PendingOperation* operation : {&second, &message, &first}) {
    EXPECT_THAT(operation->Wait(),
                StatusIs(absl::StatusCode::kAborted, "enough"));
  }
  EXPECT_FALSE(domain_->Report().in_operation);
}

// Nobody waits for it, nor tests it.
TEST_F(EngineCommunicatorTest, AStartedOperationIsLateByItself) {
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation barrier,
                             communicator_->StartBarrier());
  while (!domain_->failed()) std::this_thread::yield();
  EXPECT_THAT(domain_->TakeNotes(),
              ElementsAre("late Barrier(dissemination) #1 after 30ms entered "
                          "1 completed 0 collective awaiting 1"));
  EXPECT_THAT(barrier.Wait(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "the culprit"));
  EXPECT_TRUE(barrier.Test());
  EXPECT_THAT(communicator_->StartBarrier(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "the culprit"));
}

TEST_F(EngineCommunicatorTest, DestroyingItWithOperationsUnderWayAborts) {
  CallOptions patient;
  patient.timeout = absl::InfiniteDuration();
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation barrier,
                             communicator_->StartBarrier(patient));
  communicator_.reset();
  EXPECT_THAT(domain_->TakeNotes(), ElementsAre("fail 0", "close"));
  EXPECT_THAT(barrier.Wait(), StatusIs(absl::StatusCode::kCancelled,
                                       HasSubstr("Barrier(dissemination) #1")));
}

}  // namespace
}  // namespace shoal::internal
