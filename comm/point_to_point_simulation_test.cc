// SPDX-License-Identifier: Apache-2.0
//
// Worlds of point-to-point state machines under every order of events (small
// ones) or random ones (larger ones), against the model of one queue for each
// sender, receiver and tag. simulation_seeds.h says how to repeat a failure.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_options.h"
#include "shoal/comm/point_to_point_simulator.h"
#include "shoal/comm/simulation_seeds.h"

namespace shoal::internal {
namespace {

using Port = PointToPoint::Port;

constexpr Port kPorts[] = {Port::kOutgoingWrite, Port::kOutgoingRead,
                           Port::kIncomingRead, Port::kIncomingWrite};

// One message and its two calls.
struct Transfer {
  Transfer(int from, int to, int tag, std::int64_t count, DType dtype, int seed)
      : from(from),
        to(to),
        sent(to, tag, count, dtype, seed),
        received(from, tag, count, dtype, /*seed=*/0) {}

  int from;
  int to;
  TestMessage sent;
  TestMessage received;
  PointToPoint::OperationId send = 0;  // 0: not started
  PointToPoint::OperationId receive = 0;
};

class RandomWorld {
 public:
  explicit RandomWorld(int seed)
      : random_(seed),
        size_(2 + Pick(4)),
        options_{/*eager_bytes=*/40, /*credit_bytes=*/64 * (2 + Pick(8)),
                 /*announced_messages=*/1 + Pick(3)},
        world_(size_, options_, PickFrom<std::size_t>({1, 50, 64, 300, 9000})) {
    MakeTransfers();
  }

  // Starts everything in random order, with random steps of random machines in
  // between, and drives what is left as parked drivers would.
  void Run(bool with_death) {
    const int death = with_death ? Pick(200 + 40 * transfers_.size()) : -1;
    for (int step = 0; HasNotStarted() || step <= death; ++step) {
      if (step == death) {
        victim_ = Pick(size_);
        world_.Kill(victim_);
      }
      Step();
      CheckBounds();
      if (testing::Test::HasFailure()) return;
    }
    world_.SetLimit(PickFrom<std::size_t>({1, 7, 63, 64, 100, kNoLimit}));
    EXPECT_EQ(world_.RunUntilParked(), "");
    CheckBounds();
    victim_ < 0 ? CheckAllDone() : CheckAfterDeath();
  }

 private:
  std::size_t Pick(std::size_t below) { return random_() % below; }

  template <typename T>
  T PickFrom(std::initializer_list<T> values) {
    return *(values.begin() + Pick(values.size()));
  }

  void MakeTransfers() {
    const std::size_t count = 1 + Pick(30);
    for (std::size_t i = 0; i < count; ++i) {
      const int from = Pick(size_);
      const int to = (from + 1 + Pick(size_ - 1)) % size_;
      transfers_.emplace_back(
          from, to, /*tag=*/Pick(3),
          PickFrom<std::int64_t>({0, 1, 9, 10, 11, 39, 40, 41, 500}),
          PickFrom({DType::kU8, DType::kI32}), /*seed=*/i + 1);
    }
    // Receives in another order than sends, except within a pair and tag.
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    std::map<std::tuple<int, int, int>, std::vector<std::size_t>> places;
    for (std::size_t place = 0; place < count; ++place) {
      places[Key(order[place])].push_back(place);
    }
    std::map<std::tuple<int, int, int>, std::size_t> used;
    for (std::size_t i = 0; i < count; ++i) {
      order[places[Key(i)][used[Key(i)]++]] = i;
    }
    sends_.resize(size_);
    receives_.resize(size_);
    for (std::size_t i = count; i-- > 0;) {
      sends_[transfers_[i].from].push_back(i);
      receives_[transfers_[order[i]].to].push_back(order[i]);
    }
  }

  std::tuple<int, int, int> Key(std::size_t i) const {
    const Transfer& transfer = transfers_[i];
    return {transfer.from, transfer.to, transfer.sent.tag};
  }

  bool HasNotStarted() const {
    for (int rank = 0; rank < size_; ++rank) {
      if (world_.is_dead(rank)) continue;
      if (!sends_[rank].empty() || !receives_[rank].empty()) return true;
    }
    return false;
  }

  void Step() {
    const int rank = Pick(size_);
    if (world_.is_dead(rank)) return;
    const int other = (rank + 1 + Pick(size_ - 1)) % size_;
    switch (Pick(10)) {
      case 0:
        if (sends_[rank].empty()) return;
        {
          Transfer& transfer = transfers_[sends_[rank].back()];
          transfer.send = world_.rank(rank).StartSend(transfer.sent.SendCall());
          sends_[rank].pop_back();
        }
        return;
      case 1:
        if (receives_[rank].empty()) return;
        {
          Transfer& transfer = transfers_[receives_[rank].back()];
          transfer.receive =
              world_.rank(rank).StartRecv(transfer.received.RecvCall());
          receives_[rank].pop_back();
        }
        return;
      case 2:
        world_.OpenWanted();
        return;
      case 3:
        world_.Deliver(other, rank);
        return;
      default:
        world_.SetLimit(PickFrom<std::size_t>({1, 5, 63, 64, 65, kNoLimit}));
        if (Pick(4) == 0) {
          world_.rank(rank).Progress();
        } else {
          world_.rank(rank).ProgressOn(other, kPorts[Pick(4)]);
        }
    }
  }

  void CheckBounds() {
    for (int rank = 0; rank < size_; ++rank) {
      for (int peer = 0; peer < size_; ++peer) {
        ASSERT_LE(world_.rank(rank).unexpected_bytes(peer),
                  options_.credit_bytes);
      }
      if (victim_ >= 0 || world_.rank(rank).fault().ok()) continue;
      ADD_FAILURE() << "rank " << rank << ": "
                    << world_.rank(rank).fault().status;
    }
  }

  void CheckAllDone() {
    for (const Transfer& transfer : transfers_) {
      EXPECT_TRUE(world_.rank(transfer.from).IsDone(transfer.send))
          << world_.rank(transfer.from).DescribeUnfinished();
      EXPECT_TRUE(world_.rank(transfer.to).IsDone(transfer.receive))
          << world_.rank(transfer.to).DescribeUnfinished();
      EXPECT_TRUE(transfer.sent.Equals(transfer.received))
          << "from rank " << transfer.from << " to rank " << transfer.to
          << ", tag " << transfer.sent.tag;
    }
    for (int rank = 0; rank < size_; ++rank) {
      for (int peer = 0; peer < size_; ++peer) {
        EXPECT_EQ(world_.rank(rank).unexpected_bytes(peer), 0u);
      }
    }
  }

  // Nobody waits for the dead where a link could tell; nobody else is blamed;
  // what was received is right.
  void CheckAfterDeath() {
    for (int rank = 0; rank < size_; ++rank) {
      if (world_.is_dead(rank) || world_.rank(rank).fault().ok()) continue;
      EXPECT_EQ(world_.rank(rank).fault().kind, EngineFault::Kind::kPeerLost)
          << world_.rank(rank).fault().status;
      EXPECT_EQ(world_.rank(rank).fault().peer, victim_);
    }
    for (const Transfer& transfer : transfers_) {
      CheckEnded(transfer.from, transfer.to, transfer.send,
                 world_.IsOpen(transfer.from, transfer.to));
      CheckEnded(transfer.to, transfer.from, transfer.receive,
                 world_.IsDelivered(transfer.from, transfer.to));
      if (world_.is_dead(transfer.to) || transfer.receive == 0) continue;
      if (!world_.rank(transfer.to).IsDone(transfer.receive)) continue;
      if (!world_.rank(transfer.to).result(transfer.receive).ok()) continue;
      EXPECT_TRUE(transfer.sent.Equals(transfer.received));
    }
  }

  void CheckEnded(int rank, int peer, PointToPoint::OperationId id,
                  bool has_link) {
    if (world_.is_dead(rank) || id == 0) return;
    if (world_.rank(rank).IsDone(id)) return;
    // The control plane's affair: without a link there is nothing to end.
    if (peer == victim_ && !has_link) return;
    // The peer has stopped at a fault of its own, which its driver will tell.
    if (peer != victim_ && !world_.rank(peer).fault().ok()) return;
    ADD_FAILURE() << "rank " << rank << " waits for ever: "
                  << world_.rank(rank).DescribeUnfinished();
  }

  std::mt19937 random_;
  const int size_;
  const PointToPointOptions options_;
  PointToPointWorld world_;
  std::vector<Transfer> transfers_;
  std::vector<std::vector<std::size_t>> sends_;     // by rank, last first
  std::vector<std::vector<std::size_t>> receives_;  // the same
  int victim_ = -1;
};

void RunWorlds(bool with_death) {
  RunSeeds(CasesToTry(4000),
           [with_death](int seed) { RandomWorld(seed).Run(with_death); });
}

TEST(PointToPointSimulationTest, RandomWorldsDeliverEveryMessageInOrder) {
  RunWorlds(/*with_death=*/false);
}

TEST(PointToPointSimulationTest, RandomWorldsSurviveADeath) {
  RunWorlds(/*with_death=*/true);
}

// Every order of events of a small world, each event moving all it can or being
// cut once; equal states are visited once. A path is repeated from its start to
// get back to its end, since machines cannot be copied.
class ExhaustiveWorld {
 public:
  // `cut`: the bytes that a cut event moves. `max_cuts`, `max_deaths` a path.
  ExhaustiveWorld(int size, const std::vector<Transfer>& transfers,
                  std::size_t cut, int max_cuts, int max_deaths)
      : size_(size),
        transfers_(transfers),
        cut_(cut),
        max_cuts_(max_cuts),
        max_deaths_(max_deaths) {}

  std::size_t Explore() {
    std::vector<Event> path;
    Visit(&path);
    return visited_.size();
  }

 private:
  struct Event {
    enum class Kind { kStartSend, kStartReceive, kDeliver, kMove, kDie };
    Kind kind;
    int rank;
    int peer;  // or the index of the transfer
    Port port = Port::kOutgoingWrite;
    std::size_t limit = kNoLimit;
  };

  struct Run {
    Run(int size, std::vector<Transfer> transfers)
        : world(size, {/*eager_bytes=*/4, /*credit_bytes=*/150,
                       /*announced_messages=*/1}),
          transfers(std::move(transfers)) {}
    PointToPointWorld world;
    std::vector<Transfer> transfers;
    int cuts = 0;
    int deaths = 0;
    int victim = -1;
    bool moved = true;  // by the last event
  };

  void Apply(const Event& event, Run* run) const {
    Transfer* const transfer = event.kind == Event::Kind::kStartSend ||
                                       event.kind == Event::Kind::kStartReceive
                                   ? &run->transfers[event.peer]
                                   : nullptr;
    PointToPoint& machine = run->world.rank(event.rank);
    switch (event.kind) {
      case Event::Kind::kStartSend:
        transfer->send = machine.StartSend(transfer->sent.SendCall());
        run->world.Open(transfer->from, transfer->to);
        break;
      case Event::Kind::kStartReceive:
        transfer->receive = machine.StartRecv(transfer->received.RecvCall());
        break;
      case Event::Kind::kDeliver:
        run->moved = run->world.Deliver(event.peer, event.rank);
        break;
      case Event::Kind::kMove:
        run->world.SetLimit(event.limit);
        run->moved = machine.ProgressOn(event.peer, event.port);
        run->cuts += event.limit != kNoLimit;
        break;
      case Event::Kind::kDie:
        run->world.Kill(event.rank);
        run->victim = event.rank;
        ++run->deaths;
        break;
    }
  }

  std::string StateOf(const Run& run) const {
    std::string state = run.world.State();
    for (const Transfer& transfer : run.transfers) {
      absl::StrAppend(&state, "\n", transfer.send, ",", transfer.receive);
    }
    absl::StrAppend(&state, "\n", run.cuts, ",", run.victim);
    return state;
  }

  std::vector<Event> EventsOf(const Run& run) const {
    std::vector<Event> events;
    // Sends of a rank begin in their order, receives in any that keeps that of
    // each sender and tag.
    std::set<int> has_sent;
    std::set<std::tuple<int, int, int>> has_received;
    for (std::size_t i = 0; i < run.transfers.size(); ++i) {
      const Transfer& transfer = run.transfers[i];
      const int index = static_cast<int>(i);
      if (transfer.send == 0 && has_sent.insert(transfer.from).second &&
          !run.world.is_dead(transfer.from)) {
        events.push_back({Event::Kind::kStartSend, transfer.from, index});
      }
      if (transfer.receive == 0 && !run.world.is_dead(transfer.to) &&
          has_received
              .emplace(transfer.to, transfer.from, transfer.received.tag)
              .second) {
        events.push_back({Event::Kind::kStartReceive, transfer.to, index});
      }
    }
    for (int rank = 0; rank < size_; ++rank) {
      if (run.world.is_dead(rank)) continue;
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank) continue;
        events.push_back({Event::Kind::kDeliver, rank, peer});
        for (const Port port : kPorts) {
          events.push_back({Event::Kind::kMove, rank, peer, port});
          if (run.cuts < max_cuts_) {
            events.push_back({Event::Kind::kMove, rank, peer, port, cut_});
          }
        }
      }
      if (run.deaths < max_deaths_) {
        events.push_back({Event::Kind::kDie, rank, 0});
      }
    }
    return events;
  }

  void Visit(std::vector<Event>* path) {
    if (testing::Test::HasFailure()) return;
    std::vector<Event> events;
    {
      Run run(size_, transfers_);
      for (const Event& event : *path) Apply(event, &run);
      if (!run.moved && path->back().kind != Event::Kind::kMove) return;
      if (!visited_.insert(StateOf(run)).second) return;
      events = EventsOf(run);
      Finish(&run);
    }
    for (const Event& event : events) {
      path->push_back(event);
      Visit(path);
      path->pop_back();
    }
  }

  // From every state the rest goes through by itself.
  void Finish(Run* run) {
    run->world.SetLimit(kNoLimit);
    for (Transfer& transfer : run->transfers) {
      if (transfer.send == 0 && !run->world.is_dead(transfer.from)) {
        transfer.send =
            run->world.rank(transfer.from).StartSend(transfer.sent.SendCall());
      }
      if (transfer.receive == 0 && !run->world.is_dead(transfer.to)) {
        transfer.receive = run->world.rank(transfer.to)
                               .StartRecv(transfer.received.RecvCall());
      }
    }
    EXPECT_EQ(run->world.RunUntilParked(), "");
    for (const Transfer& transfer : run->transfers) {
      if (run->victim < 0) {
        EXPECT_TRUE(run->world.rank(transfer.from).IsDone(transfer.send));
        EXPECT_TRUE(run->world.rank(transfer.to).IsDone(transfer.receive));
        EXPECT_TRUE(transfer.sent.Equals(transfer.received));
        continue;
      }
      CheckSide(*run, transfer.from, transfer.to, transfer.send,
                run->world.IsOpen(transfer.from, transfer.to));
      CheckSide(*run, transfer.to, transfer.from, transfer.receive,
                run->world.IsDelivered(transfer.from, transfer.to));
    }
    for (int rank = 0; rank < size_; ++rank) {
      const EngineFault& fault = run->world.rank(rank).fault();
      if (run->world.is_dead(rank) || fault.ok()) continue;
      EXPECT_EQ(fault.peer, run->victim) << fault.status;
      EXPECT_EQ(fault.kind, EngineFault::Kind::kPeerLost);
    }
  }

  void CheckSide(const Run& run, int rank, int peer,
                 PointToPoint::OperationId id, bool has_link) const {
    auto& world = const_cast<PointToPointWorld&>(run.world);
    if (world.is_dead(rank) || world.rank(rank).IsDone(id)) return;
    if (peer == run.victim && !has_link) return;
    if (peer != run.victim && !world.rank(peer).fault().ok()) return;
    ADD_FAILURE() << "rank " << rank << " waits for ever: "
                  << world.rank(rank).DescribeUnfinished();
  }

  const int size_;
  const std::vector<Transfer> transfers_;
  const std::size_t cut_;
  const int max_cuts_;
  const int max_deaths_;
  std::set<std::string> visited_;
};

// Inside the header, at its end, inside the payload, and a single byte.
constexpr std::size_t kCuts[] = {1, 30, kMessageHeaderSize,
                                 kMessageHeaderSize + 2};

const std::vector<Transfer>& SmallThenLarge() {
  static const auto& transfers = *new std::vector<Transfer>{
      Transfer(0, 1, 0, 3, DType::kU8, 1), Transfer(0, 1, 0, 9, DType::kU8, 2)};
  return transfers;
}

const std::vector<Transfer>& TwoTags() {
  static const auto& transfers = *new std::vector<Transfer>{
      Transfer(0, 1, 1, 9, DType::kU8, 1), Transfer(0, 1, 0, 3, DType::kU8, 2)};
  return transfers;
}

const std::vector<Transfer>& LargeEachWay() {
  static const auto& transfers = *new std::vector<Transfer>{
      Transfer(0, 1, 0, 9, DType::kU8, 1), Transfer(1, 0, 0, 9, DType::kU8, 2)};
  return transfers;
}

// The third finds no credit, or what has come back.
const std::vector<Transfer>& ThreeSmall() {
  static const auto& transfers = *new std::vector<Transfer>{
      Transfer(0, 1, 0, 3, DType::kU8, 1), Transfer(0, 1, 1, 4, DType::kU8, 2),
      Transfer(0, 1, 0, 2, DType::kU8, 3)};
  return transfers;
}

const std::vector<Transfer>& RingOfThree() {
  static const auto& transfers = *new std::vector<Transfer>{
      Transfer(0, 1, 0, 9, DType::kU8, 1), Transfer(1, 2, 0, 2, DType::kU8, 2),
      Transfer(2, 0, 0, 9, DType::kU8, 3)};
  return transfers;
}

const std::vector<Transfer>& ChainOfThree() {
  static const auto& transfers = *new std::vector<Transfer>{
      Transfer(0, 1, 0, 9, DType::kU8, 1), Transfer(1, 2, 0, 2, DType::kU8, 2)};
  return transfers;
}

void ExploreAll(int size, const std::vector<Transfer>& transfers, int max_cuts,
                int max_deaths) {
  for (const std::size_t cut : kCuts) {
    const std::size_t states =
        ExhaustiveWorld(size, transfers, cut, max_cuts, max_deaths).Explore();
    std::printf("cut at %zu: %zu states\n", cut, states);
    EXPECT_GT(states, 100u);
    if (max_cuts == 0) return;
  }
}

TEST(PointToPointSimulationTest, SmallThenLargeInEveryOrder) {
  ExploreAll(2, SmallThenLarge(), /*max_cuts=*/2, /*max_deaths=*/1);
}

TEST(PointToPointSimulationTest, TwoTagsInEveryOrder) {
  ExploreAll(2, TwoTags(), /*max_cuts=*/2, /*max_deaths=*/1);
}

TEST(PointToPointSimulationTest, LargeEachWayInEveryOrder) {
  ExploreAll(2, LargeEachWay(), /*max_cuts=*/1, /*max_deaths=*/1);
}

TEST(PointToPointSimulationTest, ThreeSmallInEveryOrder) {
  ExploreAll(2, ThreeSmall(), /*max_cuts=*/1, /*max_deaths=*/1);
}

TEST(PointToPointSimulationTest, RingOfThreeInEveryOrder) {
  ExploreAll(3, RingOfThree(), /*max_cuts=*/0, /*max_deaths=*/0);
}

TEST(PointToPointSimulationTest, ChainOfThreeInEveryOrder) {
  ExploreAll(3, ChainOfThree(), /*max_cuts=*/0, /*max_deaths=*/1);
}

}  // namespace
}  // namespace shoal::internal
