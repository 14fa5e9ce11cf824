// SPDX-License-Identifier: Apache-2.0
//
// The monitor of rank 0 of three against control links that the test plays;
// tcp_job_test.cc has whole jobs.

#include "shoal/comm/job_monitor.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/bootstrap_test_world.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/control_wire.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/service_thread.h"
#include "shoal/comm/stranger.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class JobMonitorTest : public testing::Test {
 protected:
  JobMonitorTest() : service_(ServiceThread::Get().value()) {}
  ~JobMonitorTest() override { Close(); }

  JobMonitorOptions MakeOptions() {
    JobMonitorOptions options;
    options.self = {"test", /*session=*/4711, /*rank=*/0, /*world_size=*/3};
    options.control.resize(3);
    for (int rank = 0; rank < 3; ++rank) {
      options.rank_names.push_back(absl::StrCat("rank ", rank, " (host)"));
    }
    options.log = [this](absl::string_view line) { log_.Add(line); };
    options.report = [](auto&&...) { return OperationReport(); };
    options.on_failed = [this] {
      ++failures_;
      events_.Add("failed");
    };
    options.on_link = [](auto&&...) { return absl::OkStatus(); };
    return options;
  }

  void Start() {
    JobMonitorOptions options = MakeOptions();
    options.listener = ListenOnLoopback();
    address_ = LocalAddress(options.listener.get())->ToString();
    for (const int peer : {1, 2}) {
      SocketPair pair = ConnectOverLoopback();
      options.control[peer] = std::move(pair.accepted);
      peers_.emplace_back(std::move(pair.dialled));
    }
    monitor_ = JobMonitor::Start(service_.get(), std::move(options)).value();
  }

  void Close() {
    if (monitor_ == nullptr) return;
    // The peers leave too, so that nobody waits for them.
    peers_.clear();
    std::exchange(monitor_, nullptr)->Close();
  }

  Stranger& peer(int rank) { return peers_[rank - 1]; }

  ControlMessage Receive(int rank) {
    const absl::StatusOr<std::string> payload = peer(rank).ReceiveFrame();
    EXPECT_TRUE(payload.ok()) << payload.status();
    return payload.ok() ? DecodeControl(*payload).value() : ControlMessage();
  }

  void Send(int rank, const ControlMessage& message) {
    peer(rank).Send(EncodeFrame(EncodeControl(message)));
  }

  const std::shared_ptr<ServiceThread> service_;
  Lines log_;
  Lines events_;
  std::atomic<int> failures_{0};
  std::string address_;
  std::vector<Stranger> peers_;
  std::shared_ptr<JobMonitor> monitor_;
};

TEST_F(JobMonitorTest, TheFirstFailureStaysAndIsToldToEveryPeer) {
  Start();
  EXPECT_FALSE(monitor_->failed());
  SHOAL_EXPECT_OK(monitor_->status());
  monitor_->Fail(2, absl::DataLossError("the disk is full"));
  EXPECT_TRUE(monitor_->failed()) << "when Fail returns";
  EXPECT_EQ(failures_.load(), 1);
  monitor_->Fail(1, absl::AbortedError("too late"));
  EXPECT_THAT(monitor_->status(), StatusIs(absl::StatusCode::kDataLoss,
                                           HasSubstr("the disk is full")));
  for (const int rank : {1, 2}) {
    const ControlMessage message = Receive(rank);
    EXPECT_EQ(message.kind, ControlKind::kAbort);
    EXPECT_EQ(message.culprit, 2);
    EXPECT_EQ(message.code, static_cast<int>(absl::StatusCode::kDataLoss));
    EXPECT_THAT(message.text, HasSubstr("the disk is full"));
  }
  EXPECT_EQ(failures_.load(), 1) << "it is told once";
}

TEST_F(JobMonitorTest, APeersFailureBecomesTheJobs) {
  Start();
  ControlMessage abort;
  abort.kind = ControlKind::kAbort;
  abort.culprit = 1;
  abort.code = static_cast<int>(absl::StatusCode::kResourceExhausted);
  abort.text = "no memory";
  Send(1, abort);
  events_.Await("failed");
  EXPECT_TRUE(monitor_->failed());
  EXPECT_THAT(monitor_->status(), StatusIs(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("no memory")));
  // A lost link that comes of it has its reason at once.
  EXPECT_EQ(monitor_->FailAfterLostLink(2, "Barrier #4"), monitor_->status());
}

TEST_F(JobMonitorTest, AGoodbyeIsPassedOnAndIsNoFailure) {
  Start();
  ControlMessage goodbye;
  goodbye.kind = ControlKind::kGoodbye;
  Send(1, goodbye);
  peer(1).Close();
  monitor_->SayGoodbye();
  EXPECT_EQ(Receive(2).kind, ControlKind::kGoodbye);
  Close();
  EXPECT_EQ(failures_.load(), 0);
}

TEST_F(JobMonitorTest, AConnectionThatAsksForNoLinkIsTurnedAway) {
  Start();
  Stranger stranger(address_, Framed(GoodHello(1, 3)));
  SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage answer,
                             stranger.Receive());
  EXPECT_THAT(FailureStatus(answer.failure()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(stranger.own_address()),
                             HasSubstr("did not ask for a link"))));
  log_.Await(stranger.own_address());
  EXPECT_THAT(log_.lines()[0], HasSubstr("rank 0 (host)"));
  EXPECT_FALSE(monitor_->failed());
}

TEST_F(JobMonitorTest, CloseLeavesNothingBehind) {
  const int before = CountGuardedDescriptors();
  Start();
  monitor_->SayGoodbye();
  EXPECT_EQ(Receive(1).kind, ControlKind::kGoodbye);
  const SocketAddress address = Resolve(*ParseHostPort(address_))->front();
  Close();
  EXPECT_EQ(CountGuardedDescriptors(), before);
  EXPECT_FALSE(ConnectAndSend(address, "", MonotonicNow() + absl::Seconds(60),
                              [] { return false; })
                   .ok())
      << "nobody listens any more";
}

// What cannot be watched is an error at once, and no thread waits.
TEST_F(JobMonitorTest, StartWithoutAListenerIsAnError) {
  EXPECT_FALSE(JobMonitor::Start(service_.get(), MakeOptions()).ok());
}

}  // namespace
}  // namespace shoal::internal
