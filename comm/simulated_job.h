// SPDX-License-Identifier: Apache-2.0
//
// A job of control planes over links that keep their order and take their time,
// in virtual time, for tests.

#ifndef SHOAL_COMM_SIMULATED_JOB_H_
#define SHOAL_COMM_SIMULATED_JOB_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/failure_domain.h"

namespace shoal::internal {

inline constexpr absl::Duration kGrace = absl::Milliseconds(200);
inline constexpr absl::Duration kWindow = absl::Milliseconds(500);
inline constexpr absl::Duration kTimeout = absl::Seconds(2);
// What a death, an abort or a departure may take to reach everybody.
inline constexpr absl::Duration kBound = absl::Seconds(1);

inline OperationReport InCollective(std::uint64_t entered,
                                    std::vector<int> awaiting) {
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
class SimulatedJob {
 public:
  SimulatedJob(int size, absl::Duration tick, int max_age)
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

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SIMULATED_JOB_H_
