// SPDX-License-Identifier: Apache-2.0
//
// Jobs of up to eight control planes under random orders of events, with ranks
// that die, leave, abort, stop or fall behind. simulation_seeds.h says how to
// repeat a failure.

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/simulated_job.h"
#include "shoal/comm/simulation_seeds.h"

namespace shoal::internal {
namespace {

class RandomJob {
 public:
  explicit RandomJob(int seed)
      : random_(seed),
        // Two hops take less than the grace.
        job_(2 + Pick(7), absl::Milliseconds(10), /*max_age=*/Pick(10)),
        victim_(Pick(job_.size())) {
    job_.exit_after_failure = Pick(2) == 0;
    for (int rank = 0; rank < job_.size(); ++rank) {
      if (rank == victim_ || Pick(3) == 0) continue;  // is in no call
      job_.report(rank) = InCollective(17, SomeRanksBut(rank));
    }
  }

  void Death() {
    const absl::Time start = RunFor(Pick(200));
    job_.Die(victim_);
    RunUntilAllFailed(start + kBound);
    ExpectAll(victim_, absl::StatusCode::kUnavailable, " died");
  }

  // The rank that aborts may die while it tells the others.
  void Abort() {
    const absl::Time start = RunFor(Pick(200));
    const absl::Status reason = absl::DataLossError("bad checkpoint");
    job_.Abort(victim_, reason);
    const int told = Pick(job_.size() + 1);
    told < job_.size() ? job_.Die(victim_, told) : job_.Pump(victim_);
    RunUntilAllFailed(start + kBound);
    told == 0 ? ExpectAll(victim_, absl::StatusCode::kUnavailable, " died")
              : ExpectAll(victim_, reason.code(), reason.message());
  }

  void Departure() {
    const absl::Time start = RunFor(Pick(200));
    bool needed = false;
    for (int rank = 0; rank < job_.size(); ++rank) {
      const std::vector<int>& awaiting = job_.report(rank).awaiting;
      needed |= std::count(awaiting.begin(), awaiting.end(), victim_) > 0;
    }
    job_.Leave(victim_);
    if (needed) {
      RunUntilAllFailed(start + kBound);
      ExpectAll(victim_, absl::StatusCode::kUnavailable, " left");
      return;
    }
    RunFor(100);
    for (int rank = 0; rank < job_.size(); ++rank) {
      EXPECT_TRUE(job_.plane(rank).status().ok()) << job_.plane(rank).status();
    }
  }

  // All leave when they are done, the slow ones long after the fast ones.
  void Farewell() {
    for (int rank = 0; rank < job_.size(); ++rank) job_.report(rank) = {};
    std::vector<int> order;
    for (int rank = 0; rank < job_.size(); ++rank) order.push_back(rank);
    std::shuffle(order.begin(), order.end(), random_);
    for (const int rank : order) {
      RunFor(Pick(60));
      job_.Leave(rank);
    }
    RunFor(100);
    for (int rank = 0; rank < job_.size(); ++rank) {
      EXPECT_TRUE(job_.plane(rank).status().ok()) << job_.plane(rank).status();
    }
  }

  // A rank that is stopped; every other one runs out of time, about at once.
  void Silence() {
    RunFor(Pick(50));
    job_.Stop(victim_);
    const absl::Time start = TimeOutAll();
    RunUntilAllFailed(start + kWindow + kBound);
    ExpectAll(victim_, absl::StatusCode::kDeadlineExceeded,
              "answers no question");
  }

  // A rank that has not made the call; some have run ahead of it, even into
  // the next, in which they wait for others that wait.
  void Laggard() {
    for (int rank = 0; rank < job_.size(); ++rank) {
      job_.report(rank) = InCollective(17 + Pick(2), SomeRanksBut(rank));
    }
    OperationReport late;
    late.entered = 16;
    late.last_completed = 16;
    job_.report(victim_) = late;
    RunFor(Pick(50));
    const absl::Time start = TimeOutAll();
    RunUntilAllFailed(start + kWindow + kBound);
    ExpectAll(victim_, absl::StatusCode::kDeadlineExceeded,
              "alive, last completed #16");
  }

  // A rank that all wait for dies while they ask what it does. It may have
  // answered before.
  void DeathDuringTheQuestion() {
    for (int rank = 0; rank < job_.size(); ++rank) {
      job_.report(rank) = InCollective(17, {victim_});
    }
    const absl::Time start = TimeOutAll();
    RunFor(Pick(5));
    job_.Die(victim_);
    RunUntilAllFailed(start + kWindow + kBound);
    ExpectCulprits({victim_});
  }

  // Two things at once: each rank names one of them.
  void DeathAndAbort() {
    const absl::Time start = RunFor(Pick(50));
    const int other = (victim_ + 1 + Pick(job_.size() - 1)) % job_.size();
    job_.Die(victim_);
    RunFor(Pick(30));
    if (job_.is_there(other)) {
      job_.Abort(other, absl::DataLossError("bad checkpoint"));
      job_.Pump(other);
    }
    RunUntilAllFailed(start + kBound);
    ExpectCulprits({victim_, other});
  }

 private:
  std::size_t Pick(std::size_t below) { return random_() % below; }

  std::vector<int> SomeRanksBut(int rank) {
    std::vector<int> ranks;
    for (int other = 0; other < job_.size(); ++other) {
      if (other != rank && Pick(2) == 0) ranks.push_back(other);
    }
    return ranks;
  }

  void Step() {
    const std::vector<SimulatedJob::Event> events = job_.Enabled();
    job_.Apply(events[Pick(events.size())]);
    job_.Check();
  }

  absl::Time RunFor(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) Step();
    return job_.now();
  }

  // Each within 200 ms of the first; a rank in no call has no time-out.
  absl::Time TimeOutAll() {
    bool any = false;
    absl::Time start = job_.now();
    for (int rank = 0; rank < job_.size(); ++rank) {
      if (rank == victim_ || !job_.report(rank).in_operation) continue;
      if (std::exchange(any, true)) {
        const absl::Time until = start + absl::Milliseconds(20 * Pick(3));
        while (job_.now() < until && !testing::Test::HasFailure()) Step();
      } else {
        start = job_.now();
      }
      job_.TimeOut(rank);
    }
    if (any) return start;
    const int rank = (victim_ + 1) % job_.size();
    job_.report(rank) = InCollective(17, {victim_});
    job_.TimeOut(rank);
    return start;
  }

  void RunUntilAllFailed(absl::Time deadline) {
    while (!job_.AllFailed() && !testing::Test::HasFailure()) {
      Step();
      ASSERT_LE(job_.now(), deadline) << "a rank is still waiting";
    }
    RunFor(50);  // and nothing changes any more
  }

  void ExpectAll(int culprit, absl::StatusCode code, absl::string_view text) {
    for (int rank = 0; rank < job_.size(); ++rank) {
      if (rank == victim_) continue;
      const ControlPlane& plane = job_.plane(rank);
      EXPECT_EQ(plane.culprit(), culprit) << "rank " << rank;
      EXPECT_EQ(plane.status().code(), code) << plane.status();
      EXPECT_TRUE(absl::StrContains(plane.status().message(), text))
          << plane.status();
    }
  }

  void ExpectCulprits(const std::set<int>& culprits) {
    for (int rank = 0; rank < job_.size(); ++rank) {
      if (rank == victim_) continue;
      EXPECT_TRUE(job_.plane(rank).failed());
      EXPECT_EQ(culprits.count(job_.plane(rank).culprit()), 1u)
          << job_.plane(rank).status();
    }
  }

  std::mt19937 random_;
  SimulatedJob job_;
  const int victim_;
};

void RunScenario(void (RandomJob::*scenario)()) {
  RunSeeds(CasesToTry(1000), [scenario](int seed) {
    RandomJob job(seed);
    (job.*scenario)();
  });
}

TEST(ControlPlaneSimulationTest, ADeadRankIsNamedByAll) {
  RunScenario(&RandomJob::Death);
}

TEST(ControlPlaneSimulationTest, AnAbortReachesAllEvenIfItsRankDiesTelling) {
  RunScenario(&RandomJob::Abort);
}

TEST(ControlPlaneSimulationTest, ARankThatLeftIsNamedOnlyIfNeeded) {
  RunScenario(&RandomJob::Departure);
}

TEST(ControlPlaneSimulationTest, AnOrderlyEndIsNoFailure) {
  RunScenario(&RandomJob::Farewell);
}

TEST(ControlPlaneSimulationTest, ASilentRankIsNamedByAll) {
  RunScenario(&RandomJob::Silence);
}

TEST(ControlPlaneSimulationTest, TheRankFurthestBehindIsNamedByAll) {
  RunScenario(&RandomJob::Laggard);
}

TEST(ControlPlaneSimulationTest, ADeathDuringTheQuestionIsNamedByAll) {
  RunScenario(&RandomJob::DeathDuringTheQuestion);
}

TEST(ControlPlaneSimulationTest, OfTwoFailuresEachRankNamesOne) {
  RunScenario(&RandomJob::DeathAndAbort);
}

}  // namespace
}  // namespace shoal::internal
