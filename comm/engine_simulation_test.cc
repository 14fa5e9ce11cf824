// SPDX-License-Identifier: Apache-2.0
//
// Every order of events in worlds of two and three ranks with two calls, and a
// third where ranks disagree. See engine_random_test.cc for larger worlds.

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/engine_simulator.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/simulated_call.h"
#include "shoal/comm/simulated_world.h"

namespace shoal::internal {
namespace {

using ::testing::Combine;
using ::testing::HasSubstr;
using ::testing::Range;

using Fate = SimulatedWorld::Fate;
using Kind = EngineFault::Kind;

SimulatedCall AllReduce(std::int64_t count,
                        Algorithm algorithm = Algorithm::kRing) {
  SimulatedCall call;
  call.signature.kind = CallKind::kAllReduce;
  call.signature.dtype = DType::kI32;
  call.signature.algorithm = algorithm;
  call.signature.count = count;
  return call;
}

SimulatedCall ReduceScatter(std::int64_t count) {
  SimulatedCall call = AllReduce(count);
  call.signature.kind = CallKind::kReduceScatter;
  return call;
}

SimulatedCall AllGather(std::int64_t count) {
  SimulatedCall call = AllReduce(count);
  call.signature.kind = CallKind::kAllGather;
  return call;
}

SimulatedCall Broadcast(std::int64_t count, int root) {
  SimulatedCall call = AllReduce(count, Algorithm::kBinomialTree);
  call.signature.kind = CallKind::kBroadcast;
  call.signature.root = root;
  return call;
}

SimulatedCall Barrier() {
  SimulatedCall call;
  call.signature.kind = CallKind::kBarrier;
  call.signature.algorithm = Algorithm::kDissemination;
  return call;
}

SimulatedCall InPlace(SimulatedCall call) {
  call.in_place = true;
  return call;
}

SimulatedCall Average(SimulatedCall call) {
  call.signature.op = ReduceOp::kAverage;
  return call;
}

// One of each kind, some in place.
std::vector<SimulatedCall> AllCalls() {
  return {Average(AllReduce(3)),
          InPlace(AllReduce(2, Algorithm::kRecursiveDoubling)),
          InPlace(ReduceScatter(2)),
          AllGather(2),
          Broadcast(2, 1),
          Barrier()};
}
constexpr int kCalls = 6;

SimulationPlan Alike(int world_size, const std::vector<SimulatedCall>& calls,
                     int concurrent) {
  SimulationPlan plan;
  plan.world_size = world_size;
  plan.calls.assign(world_size, calls);
  plan.concurrent = concurrent;
  return plan;
}

// Whatever the order, the cuts and the death: right results, or the loss of a
// peer that is gone. Without a death there is one end only, in which everyone
// has finished.
void ExpectSound(const SimulationPlan& plan, const ExploreOptions& options) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const ExploreSummary summary,
                             ExploreAll(plan, options));
  const int budgets =
      options.max_cuts == ExploreOptions::kAnyNumber ? 1 : options.max_cuts + 1;
  EXPECT_EQ(summary.all_finished, budgets) << plan.ToString();
  EXPECT_EQ(summary.mismatch_found, 0);
  if (!options.deaths) {
    EXPECT_EQ(summary.ends, budgets);
    return;
  }
  const auto lost = summary.failed.find(Kind::kPeerLost);
  ASSERT_NE(lost, summary.failed.end()) << "the deaths did nothing";
  EXPECT_GT(lost->second, 0);
  EXPECT_EQ(summary.failed.size(), 1u);
}

// --- Ranks that agree -------------------------------------------------------

class TwoCalls : public testing::TestWithParam<std::tuple<int, int, int>> {
 protected:
  SimulationPlan Plan(int world_size) const {
    const auto [first, second, concurrent] = GetParam();
    return Alike(world_size, {AllCalls()[first], AllCalls()[second]},
                 concurrent);
  }
};

INSTANTIATE_TEST_SUITE_P(EveryPair, TwoCalls,
                         Combine(Range(0, kCalls), Range(0, kCalls),
                                 Range(1, 3)));

TEST_P(TwoCalls, OfTwoRanksWithAnyCutsAndADeath) {
  const auto [first, second, concurrent] = GetParam();
  if (TimeoutScale() > 1 && (first + 2 * second + concurrent) % 6 != 0) {
    GTEST_SKIP() << "takes too long in a slow build";
  }
  ExpectSound(Plan(2),
              {.max_cuts = ExploreOptions::kAnyNumber, .deaths = true});
}

TEST_P(TwoCalls, OfThreeRanksWithADeath) {
  if (TriesFewerCases()) GTEST_SKIP() << "one of the cases left out";
  ExpectSound(Plan(3), {.deaths = true});
}

TEST_P(TwoCalls, OfThreeRanksWithACut) {
  if (TriesFewerCases()) GTEST_SKIP() << "one of the cases left out";
  ExpectSound(Plan(3), {.max_cuts = 1});
}

TEST(ThreeRanksTest, WithACutAndADeath) {
  if (TriesFewerCases()) GTEST_SKIP() << "one of the cases left out";
  const std::vector<SimulatedCall> calls = AllCalls();
  for (const auto& [first, second] : std::vector<std::pair<int, int>>{
           {0, 5}, {1, 4}, {2, 3}, {4, 1}, {5, 0}}) {
    ExpectSound(Alike(3, {calls[first], calls[second]}, 1),
                {.max_cuts = 1, .deaths = true});
  }
}

TEST(ThreeRanksTest, WithAnyCuts) {
  const std::vector<SimulatedCall> calls = AllCalls();
  ExpectSound(Alike(3, {calls[1], calls[5]}, 1),
              {.max_cuts = ExploreOptions::kAnyNumber});
  ExpectSound(Alike(3, {calls[4], calls[2]}, 1),
              {.max_cuts = ExploreOptions::kAnyNumber});
}

// Takes a minute or two; a target of its own runs it.
TEST(ThoroughTest, ThreeRanksWithAnyCutsAndADeath) {
  const std::vector<SimulatedCall> calls = AllCalls();
  for (const auto& [first, second] : std::vector<std::pair<int, int>>{
           {0, 5}, {1, 4}, {2, 3}, {4, 1}, {5, 0}}) {
    ExpectSound(Alike(3, {calls[first], calls[second]}, 1),
                {.max_cuts = ExploreOptions::kAnyNumber, .deaths = true});
  }
}

// Links that hold less than a header, a header and a little, or single bytes.
TEST(SmallLinksTest, BlockAndGoOn) {
  for (const std::size_t capacity : {7, 20, 70}) {
    for (const SimulatedCall& call : AllCalls()) {
      SimulationPlan plan = Alike(2, {call, AllReduce(3)}, 2);
      plan.capacity_bytes = capacity;
      ExpectSound(plan, {.deaths = true});
    }
  }
  SimulationPlan plan = Alike(3, {Barrier(), AllReduce(3)}, 1);
  plan.capacity_bytes = 40;
  ExpectSound(plan, {});
}

TEST(NothingToDoTest, ZeroElementsStillMeet) {
  for (const int world_size : {2, 3}) {
    const int cuts = world_size == 2 ? 1 : 0;
    ExpectSound(Alike(world_size, {AllReduce(0), ReduceScatter(0)}, 1),
                {.max_cuts = cuts, .deaths = true});
    ExpectSound(Alike(world_size, {AllGather(0), Broadcast(0, 1)}, 2),
                {.max_cuts = cuts, .deaths = true});
    // Fewer elements than ranks.
    ExpectSound(Alike(world_size, {AllReduce(1), Average(AllReduce(2))}, 1),
                {.max_cuts = cuts, .deaths = true});
  }
}

// --- Ranks that disagree ----------------------------------------------------

// By name, the calls of each rank.
struct Disagreement {
  std::string name;
  std::vector<std::vector<SimulatedCall>> calls;
};

std::vector<Disagreement> Disagreements() {
  SimulatedCall other_type = AllReduce(3);
  other_type.signature.dtype = DType::kF32;
  SimulatedCall other_op = AllReduce(3);
  other_op.signature.op = ReduceOp::kMax;
  const SimulatedCall sum = AllReduce(3);
  const SimulatedCall doubling = AllReduce(3, Algorithm::kRecursiveDoubling);
  const SimulatedCall end = Barrier();
  return {
      {"count", {{sum, end}, {AllReduce(4), end}}},
      {"count 0 against some", {{AllReduce(0), end}, {AllReduce(100), end}}},
      {"type", {{sum, end}, {other_type, end}}},
      {"op", {{sum, end}, {other_op, end}}},
      {"algorithm", {{sum, end}, {doubling, end}}},
      {"kind", {{sum, end}, {AllGather(3), end}}},
      {"kind of one direction", {{sum, end}, {Broadcast(3, 1), end}}},
      {"order", {{sum, ReduceScatter(2), end}, {ReduceScatter(2), sum, end}}},
      {"one behind", {{sum, sum, end}, {sum, end}}},
      {"both are root", {{Broadcast(3, 0), end}, {Broadcast(3, 1), end}}},
      {"a leaf's count", {{Broadcast(3, 0), end}, {Broadcast(2, 0), end}}},
      {"three: count", {{sum, end}, {sum, end}, {AllReduce(4), end}}},
      {"three: kind", {{sum, end}, {Broadcast(3, 0), end}, {sum, end}}},
      {"three: order",
       {{sum, doubling, end}, {sum, doubling, end}, {doubling, sum, end}}},
      {"three: one behind", {{sum, sum, end}, {sum, end}, {sum, sum, end}}},
      {"three: a leaf's count",
       {{Broadcast(3, 0), end},
        {Broadcast(3, 0), end},
        {Broadcast(9, 0), end}}},
      {"three: the root's count",
       {{Broadcast(9, 0), end},
        {Broadcast(3, 0), end},
        {Broadcast(3, 0), end}}},
  };
}

// Never a hang, never wrong data, and in each order of events at least one rank
// finds out.
TEST(DisagreementTest, IsAlwaysFound) {
  for (const Disagreement& disagreement : Disagreements()) {
    for (const int concurrent : {1, 2}) {
      SCOPED_TRACE(disagreement.name);
      SimulationPlan plan;
      plan.world_size = static_cast<int>(disagreement.calls.size());
      plan.calls = disagreement.calls;
      plan.concurrent = concurrent;
      SHOAL_ASSERT_OK_AND_ASSIGN(const ExploreSummary summary,
                                 ExploreAll(plan, {.max_cuts = 1}));
      EXPECT_GT(summary.ends, 0);
      EXPECT_EQ(summary.mismatch_found, summary.ends) << summary.ToString();
      EXPECT_EQ(summary.all_finished, 0);
    }
  }
}

// The same with links so small that a rank is stuck in sending.
TEST(DisagreementTest, IsFoundThroughFullLinks) {
  for (const Disagreement& disagreement : Disagreements()) {
    for (const std::size_t capacity : {20, 70}) {
      SCOPED_TRACE(disagreement.name);
      SimulationPlan plan;
      plan.world_size = static_cast<int>(disagreement.calls.size());
      plan.calls = disagreement.calls;
      plan.capacity_bytes = capacity;
      SHOAL_ASSERT_OK_AND_ASSIGN(const ExploreSummary summary,
                                 ExploreAll(plan, {}));
      EXPECT_EQ(summary.mismatch_found, summary.ends) << summary.ToString();
    }
  }
}

TEST(DisagreementTest, WithADeathGivesNoWrongData) {
  for (const Disagreement& disagreement : Disagreements()) {
    SCOPED_TRACE(disagreement.name);
    SimulationPlan plan;
    plan.world_size = static_cast<int>(disagreement.calls.size());
    plan.calls = disagreement.calls;
    SHOAL_ASSERT_OK(ExploreAll(plan, {.deaths = true}));
  }
}

// What no rank can see: everyone waits to hear first. It ends by the caller's
// time-out; here it is shown that nothing else happens.
TEST(DisagreementTest, RanksThatAllWaitAreLeftToTheTimeOut) {
  SimulationPlan plan;
  plan.calls = {{Broadcast(3, 1)}, {Broadcast(3, 0)}};
  EXPECT_THAT(ExploreAll(plan, {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("waits for ever")));
  SHOAL_ASSERT_OK_AND_ASSIGN(const ExploreSummary summary,
                             ExploreAll(plan, {.may_wait_forever = true}));
  EXPECT_EQ(summary.waiting, summary.ends);
  EXPECT_EQ(summary.states, 1);
}

// A broadcast's root hears from no one: it succeeds, the leaf that called it
// with another count fails, and the root learns of that in its next call.
TEST(DisagreementTest, ARootLearnsOfItInItsNextCall) {
  SimulationPlan plan;
  plan.calls = {{Broadcast(3, 0), Broadcast(3, 0)},
                {Broadcast(2, 0), Broadcast(3, 0)}};
  SimulatedWorld world(plan);
  std::vector<SimulatedEvent> events;
  for (world.AppendEvents(false, &events); !events.empty();
       world.AppendEvents(false, &events)) {
    // As late as possible for the root.
    SimulatedEvent chosen = events.back();
    SHOAL_ASSERT_OK(world.Apply(chosen));
    events.clear();
    if (world.fate(1) == Fate::kFailed) break;
  }
  EXPECT_EQ(world.fault(1), Kind::kMismatch);
  EXPECT_THAT(std::string(world.status(1).message()),
              HasSubstr("rank 0 called Broadcast(i32 x 3, root 0, "
                        "binomial-tree) #1 where rank 1 called Broadcast(i32 x "
                        "2, root 0, binomial-tree) #1"));
}

// --- Deaths -----------------------------------------------------------------

// Rank 2 dies, rank 1 fails over it and leaves, rank 0 sees rank 1's end: a
// hint, and no more than that, is what the engine gives.
TEST(DeathTest, MayShowAsTheEndOfAnotherRank) {
  SimulationPlan plan = Alike(3, {Barrier(), Barrier()}, 1);
  SimulatedWorld world(plan);
  SimulatedEvent death;
  death.kind = SimulatedEvent::Kind::kDie;
  death.rank = 2;
  SHOAL_ASSERT_OK(world.Apply(death));
  for (const int rank : {1, 0}) {
    while (world.fate(rank) == Fate::kRunning) {
      std::vector<SimulatedEvent> events;
      world.AppendEvents(false, &events);
      bool applied = false;
      for (const SimulatedEvent& event : events) {
        // Rank 0 hears of rank 2 last.
        if (event.rank != rank || (rank == 0 && event.peer == 2)) continue;
        SHOAL_ASSERT_OK(world.Apply(event));
        applied = true;
        break;
      }
      if (applied) continue;
      ASSERT_EQ(rank, 0);
      for (const SimulatedEvent& event : events) {
        if (event.rank != 0) continue;
        SHOAL_ASSERT_OK(world.Apply(event));
      }
    }
    EXPECT_EQ(world.fate(rank), Fate::kFailed);
    EXPECT_EQ(world.fault(rank), Kind::kPeerLost);
  }
}

}  // namespace
}  // namespace shoal::internal
