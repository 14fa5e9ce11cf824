// SPDX-License-Identifier: Apache-2.0
//
// Three control planes under every order of events, one of which dies, leaves,
// or aborts and dies.

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/simulated_job.h"

namespace shoal::internal {
namespace {

// Three ranks, of which `busy` ones are in a collective and need all others.
// Rank 2 fails after the start, as `fail` has it.
class ExhaustiveJob {
 public:
  using Failure = void (*)(SimulatedJob*);

  ExhaustiveJob(Failure fail, std::vector<int> busy)
      : fail_(fail), busy_(std::move(busy)) {}

  std::size_t Explore(absl::StatusCode code, absl::string_view text) {
    code_ = code;
    text_ = std::string(text);
    std::vector<SimulatedJob::Event> path;
    Visit(&path);
    return visited_.size();
  }

 private:
  void Visit(std::vector<SimulatedJob::Event>* path) {
    if (testing::Test::HasFailure()) return;
    std::vector<SimulatedJob::Event> events;
    {
      SimulatedJob job(3, kGrace / 4, /*max_age=*/1);
      for (const int rank : busy_) {
        job.report(rank) = InCollective(17, {0, 1, 2});
      }
      fail_(&job);
      for (const SimulatedJob::Event& event : *path) job.Apply(event);
      if (!visited_.insert(job.State()).second) return;
      job.Check();
      if (job.plane(0).failed() && job.plane(1).failed()) return Judge(job);
      ASSERT_LE(job.now(), absl::UnixEpoch() + kBound) << "a rank still waits";
      events = job.Enabled();
    }
    for (const SimulatedJob::Event& event : events) {
      path->push_back(event);
      Visit(path);
      path->pop_back();
    }
  }

  void Judge(const SimulatedJob& job) {
    for (const int rank : {0, 1}) {
      const ControlPlane& plane = job.plane(rank);
      EXPECT_EQ(plane.culprit(), 2) << "rank " << rank << plane.status();
      EXPECT_EQ(plane.status().code(), code_) << plane.status();
      EXPECT_TRUE(absl::StrContains(plane.status().message(), text_))
          << plane.status();
    }
  }

  const Failure fail_;
  const std::vector<int> busy_;
  absl::StatusCode code_ = absl::StatusCode::kOk;
  std::string text_;
  std::set<std::string> visited_;
};

const std::vector<std::vector<int>>& BusyRanks() {
  static const auto& busy =
      *new std::vector<std::vector<int>>{{}, {0}, {1}, {0, 1}};
  return busy;
}

TEST(ControlPlaneExhaustiveTest, EveryOrderAroundADeath) {
  for (const auto& busy : BusyRanks()) {
    ExhaustiveJob job([](SimulatedJob* job) { job->Die(2); }, busy);
    EXPECT_GT(
        job.Explore(absl::StatusCode::kUnavailable, "rank 2 (host:2) died"),
        30u);
  }
}

template <int kTold>
void AbortAndDie(SimulatedJob* job) {
  job->Abort(2, absl::DataLossError("bad checkpoint"));
  job->Die(2, kTold);
}

TEST(ControlPlaneExhaustiveTest, EveryOrderAroundADeathWhileTellingOfAnAbort) {
  for (const auto& busy : BusyRanks()) {
    EXPECT_GT(ExhaustiveJob(&AbortAndDie<1>, busy)
                  .Explore(absl::StatusCode::kDataLoss, "bad checkpoint"),
              10u);
    EXPECT_GT(ExhaustiveJob(&AbortAndDie<2>, busy)
                  .Explore(absl::StatusCode::kDataLoss, "bad checkpoint"),
              10u);
  }
}

TEST(ControlPlaneExhaustiveTest, EveryOrderAroundADeparture) {
  for (const auto& busy : BusyRanks()) {
    if (busy.empty()) continue;
    ExhaustiveJob job([](SimulatedJob* job) { job->Leave(2); }, busy);
    EXPECT_GT(
        job.Explore(absl::StatusCode::kUnavailable, "rank 2 (host:2) left"),
        10u);
  }
}

}  // namespace
}  // namespace shoal::internal
