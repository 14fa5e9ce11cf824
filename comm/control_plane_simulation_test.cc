// SPDX-License-Identifier: Apache-2.0
//
// Jobs of control planes over links that keep their order and take their time,
// under every order of events (three ranks) or random ones (up to eight), with
// ranks that die, leave, abort, stop or fall behind. A failure prints its seed;
// SHOAL_SEED runs that one alone, SHOAL_SEEDS so many.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/failure_domain.h"

namespace shoal::internal {
namespace {

constexpr absl::Duration kGrace = absl::Milliseconds(200);
constexpr absl::Duration kWindow = absl::Milliseconds(500);
constexpr absl::Duration kTimeout = absl::Seconds(2);
// What a death, an abort or a departure may take to reach everybody.
constexpr absl::Duration kBound = absl::Seconds(1);

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

OperationReport InCollective(std::uint64_t entered, std::vector<int> awaiting) {
  OperationReport report;
  report.entered = entered;
  report.last_completed = entered - 1;
  report.in_operation = true;
  report.operation = absl::StrCat("Barrier(dissemination) #", entered);
  report.awaiting = std::move(awaiting);
  return report;
}

// A job in virtual time. Time passes in ticks; what is on its way arrives
// within `max_age` ticks, in the order of its link.
class Job {
 public:
  Job(int size, absl::Duration tick, int max_age)
      : size_(size),
        tick_(tick),
        max_age_(max_age),
        ranks_(size),
        links_(size * size),
        lost_(size * size) {
    std::vector<std::string> names;
    for (int rank = 0; rank < size; ++rank) {
      names.push_back(absl::StrCat("rank ", rank, " (host:", rank, ")"));
    }
    for (int rank = 0; rank < size; ++rank) {
      Rank& state = ranks_[rank];
      state.plane = std::make_unique<ControlPlane>(
          rank, names, ControlPlaneOptions{kGrace, kWindow},
          [&state] { return state.report; });
    }
  }

  struct Event {
    enum class Kind { kDeliver, kLoseLink, kExit, kTick };
    Kind kind;
    int from = 0;
    int to = 0;
  };

  int size() const { return size_; }
  absl::Time now() const { return now_; }
  const ControlPlane& plane(int rank) const { return *ranks_[rank].plane; }
  OperationReport& report(int rank) { return ranks_[rank].report; }
  bool is_there(int rank) const { return !ranks_[rank].gone; }

  // What may happen next; time passes only when nothing is overdue.
  std::vector<Event> Enabled() const {
    std::vector<Event> events;
    bool overdue = false;
    for (int from = 0; from < size_; ++from) {
      for (int to = 0; to < size_; ++to) {
        if (ranks_[to].gone || ranks_[to].stopped) continue;
        if (!Link(from, to).empty()) {
          events.push_back({Event::Kind::kDeliver, from, to});
          overdue |= Link(from, to).front().age >= max_age_;
        }
        if (Lost(from, to).has_value()) {
          events.push_back({Event::Kind::kLoseLink, from, to});
          overdue |= *Lost(from, to) >= max_age_;
        }
      }
      if (exit_after_failure && plane(from).failed() && !ranks_[from].gone) {
        events.push_back({Event::Kind::kExit, from, from});
      }
    }
    if (!overdue) events.push_back({Event::Kind::kTick});
    return events;
  }

  void Apply(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kDeliver:
        return Deliver(event.from, event.to);
      case Event::Kind::kLoseLink:
        return LoseLink(event.from, event.to);
      case Event::Kind::kExit:
        return Leave(event.from);
      case Event::Kind::kTick:
        return Tick();
    }
  }

  // The process ends, after it has sent `messages` of what it has to say.
  void Die(int rank, int messages = 0) {
    Pump(rank, messages);
    End(rank, "Connection reset by peer");
  }

  // The rank says goodbye and ends in good order.
  void Leave(int rank) {
    ranks_[rank].plane->OnGoodbye();
    Pump(rank);
    End(rank, "");
  }

  void Abort(int rank, const absl::Status& status) {
    ranks_[rank].plane->OnLocalFailure(rank, status);
  }

  // Neither answers nor notices the time; its connections stay.
  void Stop(int rank) { ranks_[rank].stopped = true; }

  void TimeOut(int rank) {
    Rank& state = ranks_[rank];
    if (state.gone || state.stopped) return;
    state.plane->OnOperationTimeout(state.report, kTimeout, now_);
    Pump(rank);
  }

  void Pump(int rank, int limit = -1) {
    int to;
    ControlMessage message;
    while (limit-- != 0 && ranks_[rank].plane->TakeOutgoing(&to, &message)) {
      ASSERT_NE(to, rank);
      ASSERT_TRUE(to >= 0 && to < size_);
      ++messages_;
      Link(rank, to).push_back({message, "", /*end=*/false, /*age=*/0});
    }
  }

  // That a rank's error stays, that no rank says more than it has to, and that
  // one with an error waits for nothing.
  void Check() {
    for (Rank& rank : ranks_) {
      if (rank.first_status.ok()) rank.first_status = rank.plane->status();
      ASSERT_EQ(rank.plane->status(), rank.first_status);
      if (rank.plane->failed()) {
        ASSERT_EQ(rank.plane->next_tick(), absl::InfiniteFuture());
      }
    }
    // An abort, a goodbye, a question and an answer for each pair.
    ASSERT_LE(messages_, 4 * size_ * (size_ - 1));
  }

  bool AllFailed() const {
    for (const Rank& rank : ranks_) {
      if (!rank.gone && !rank.stopped && !rank.plane->failed()) return false;
    }
    return true;
  }

  std::string State() const {
    std::string state;
    for (const Rank& rank : ranks_) {
      rank.plane->AppendState(now_, &state);
      absl::StrAppend(&state, rank.gone ? " gone" : "");
    }
    for (const auto& link : links_) {
      absl::StrAppend(&state, "\n");
      for (const Item& item : link) {
        absl::StrAppend(&state, item.end ? "end" : "",
                        static_cast<int>(item.message.kind), ",",
                        item.message.culprit, "@", item.age, ";");
      }
    }
    for (const auto& age : lost_)
      absl::StrAppend(&state, " ", age.value_or(-1));
    return state;
  }

  // Whether a rank that has an error returns it to a program that then ends.
  bool exit_after_failure = true;

 private:
  struct Rank {
    std::unique_ptr<ControlPlane> plane;
    OperationReport report;
    bool gone = false;
    bool stopped = false;
    absl::Status first_status;
  };

  struct Item {
    ControlMessage message;
    std::string reason;
    bool end;
    int age;
  };

  std::deque<Item>& Link(int from, int to) { return links_[from * size_ + to]; }
  const std::deque<Item>& Link(int from, int to) const {
    return links_[from * size_ + to];
  }
  // The age of the end of the data link from `from`, not yet seen by `to`.
  std::optional<int>& Lost(int from, int to) {
    return lost_[from * size_ + to];
  }
  const std::optional<int>& Lost(int from, int to) const {
    return lost_[from * size_ + to];
  }

  void End(int rank, const std::string& reason) {
    ranks_[rank].gone = true;
    for (int to = 0; to < size_; ++to) {
      if (to == rank) continue;
      Link(rank, to).push_back({ControlMessage(), reason, /*end=*/true, 0});
      Lost(rank, to) = 0;
    }
  }

  void Deliver(int from, int to) {
    const Item item = Link(from, to).front();
    Link(from, to).pop_front();
    if (item.end) {
      ranks_[to].plane->OnEndOfStream(from, item.reason, now_);
    } else {
      ranks_[to].plane->OnMessage(from, item.message);
    }
    Pump(to);
  }

  // An operation notices only if it needs the link.
  void LoseLink(int from, int to) {
    Lost(from, to).reset();
    const OperationReport& report = ranks_[to].report;
    if (!report.in_operation) return;
    if (std::count(report.awaiting.begin(), report.awaiting.end(), from) == 0) {
      return;
    }
    ranks_[to].plane->OnDataLinkLost(from, report.operation, now_);
    Pump(to);
  }

  void Tick() {
    now_ += tick_;
    for (auto& link : links_) {
      for (Item& item : link) ++item.age;
    }
    for (auto& age : lost_) {
      if (age.has_value()) ++*age;
    }
    for (int rank = 0; rank < size_; ++rank) {
      Rank& state = ranks_[rank];
      if (state.gone || state.stopped || state.plane->next_tick() > now_) {
        continue;
      }
      state.plane->Tick(now_);
      Pump(rank);
    }
  }

  const int size_;
  const absl::Duration tick_;
  const int max_age_;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<Rank> ranks_;
  std::vector<std::deque<Item>> links_;
  std::vector<std::optional<int>> lost_;
  int messages_ = 0;
};

// Random jobs ----------------------------------------------------------------

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
    const std::vector<Job::Event> events = job_.Enabled();
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
  Job job_;
  const int victim_;
};

void RunSeeds(void (RandomJob::*scenario)()) {
  const int only = FromEnvironment("SHOAL_SEED", -1);
  const int first = only >= 0 ? only : 1;
  const int last =
      only >= 0 ? only : FromEnvironment("SHOAL_SEEDS", CasesToTry(1000));
  for (int seed = first; seed <= last; ++seed) {
    RandomJob job(seed);
    (job.*scenario)();
    if (testing::Test::HasFailure()) {
      FAIL() << "seed " << seed << ": repeat with SHOAL_SEED=" << seed;
    }
  }
}

TEST(ControlPlaneSimulationTest, ADeadRankIsNamedByAll) {
  RunSeeds(&RandomJob::Death);
}

TEST(ControlPlaneSimulationTest, AnAbortReachesAllEvenIfItsRankDiesTelling) {
  RunSeeds(&RandomJob::Abort);
}

TEST(ControlPlaneSimulationTest, ARankThatLeftIsNamedOnlyIfNeeded) {
  RunSeeds(&RandomJob::Departure);
}

TEST(ControlPlaneSimulationTest, AnOrderlyEndIsNoFailure) {
  RunSeeds(&RandomJob::Farewell);
}

TEST(ControlPlaneSimulationTest, ASilentRankIsNamedByAll) {
  RunSeeds(&RandomJob::Silence);
}

TEST(ControlPlaneSimulationTest, TheRankFurthestBehindIsNamedByAll) {
  RunSeeds(&RandomJob::Laggard);
}

TEST(ControlPlaneSimulationTest, ADeathDuringTheQuestionIsNamedByAll) {
  RunSeeds(&RandomJob::DeathDuringTheQuestion);
}

TEST(ControlPlaneSimulationTest, OfTwoFailuresEachRankNamesOne) {
  RunSeeds(&RandomJob::DeathAndAbort);
}

// Every order of events ------------------------------------------------------

// Three ranks, of which `busy` ones are in a collective and need all others.
// Rank 2 fails after the start, as `fail` has it.
class ExhaustiveJob {
 public:
  using Failure = void (*)(Job*);

  ExhaustiveJob(Failure fail, std::vector<int> busy)
      : fail_(fail), busy_(std::move(busy)) {}

  std::size_t Explore(absl::StatusCode code, absl::string_view text) {
    code_ = code;
    text_ = std::string(text);
    std::vector<Job::Event> path;
    Visit(&path);
    return visited_.size();
  }

 private:
  void Visit(std::vector<Job::Event>* path) {
    if (testing::Test::HasFailure()) return;
    std::vector<Job::Event> events;
    {
      Job job(3, kGrace / 4, /*max_age=*/1);
      for (const int rank : busy_) {
        job.report(rank) = InCollective(17, {0, 1, 2});
      }
      fail_(&job);
      for (const Job::Event& event : *path) job.Apply(event);
      if (!visited_.insert(job.State()).second) return;
      job.Check();
      if (job.plane(0).failed() && job.plane(1).failed()) return Judge(job);
      ASSERT_LE(job.now(), absl::UnixEpoch() + kBound) << "a rank still waits";
      events = job.Enabled();
    }
    for (const Job::Event& event : events) {
      path->push_back(event);
      Visit(path);
      path->pop_back();
    }
  }

  void Judge(const Job& job) {
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

TEST(ControlPlaneSimulationTest, EveryOrderAroundADeath) {
  for (const auto& busy : BusyRanks()) {
    ExhaustiveJob job([](Job* job) { job->Die(2); }, busy);
    EXPECT_GT(
        job.Explore(absl::StatusCode::kUnavailable, "rank 2 (host:2) died"),
        30u);
  }
}

template <int kTold>
void AbortAndDie(Job* job) {
  job->Abort(2, absl::DataLossError("bad checkpoint"));
  job->Die(2, kTold);
}

TEST(ControlPlaneSimulationTest, EveryOrderAroundADeathWhileTellingOfAnAbort) {
  for (const auto& busy : BusyRanks()) {
    EXPECT_GT(ExhaustiveJob(&AbortAndDie<1>, busy)
                  .Explore(absl::StatusCode::kDataLoss, "bad checkpoint"),
              10u);
    EXPECT_GT(ExhaustiveJob(&AbortAndDie<2>, busy)
                  .Explore(absl::StatusCode::kDataLoss, "bad checkpoint"),
              10u);
  }
}

TEST(ControlPlaneSimulationTest, EveryOrderAroundADeparture) {
  for (const auto& busy : BusyRanks()) {
    if (busy.empty()) continue;
    ExhaustiveJob job([](Job* job) { job->Leave(2); }, busy);
    EXPECT_GT(
        job.Explore(absl::StatusCode::kUnavailable, "rank 2 (host:2) left"),
        10u);
  }
}

}  // namespace
}  // namespace shoal::internal
