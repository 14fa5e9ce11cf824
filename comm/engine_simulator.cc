// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/engine_simulator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/simulated_call.h"
#include "shoal/comm/simulated_link.h"
#include "shoal/comm/simulated_world.h"
#include "shoal/comm/wire_format.h"

namespace shoal::internal {
namespace {

using Fate = SimulatedWorld::Fate;

absl::Status WithStory(const absl::Status& status, const std::string& plan,
                       const std::deque<SimulatedEvent>& events) {
  std::string text = absl::StrCat(status.message(), "\n", plan, "\nafter");
  for (const SimulatedEvent& event : events) {
    absl::StrAppend(&text, "\n  ", event.ToString());
  }
  return absl::Status(status.code(), text);
}

// --- All orders -------------------------------------------------------------

// A state with what remains to be tried from it.
struct Visit {
  SimulatedWorld world;
  int cuts_left = 0;
  bool death_left = false;
  std::vector<SimulatedEvent> events = {};
  std::size_t next = 0;
};

class Explorer {
 public:
  Explorer(const SimulationPlan& plan, const ExploreOptions& options)
      : plan_(plan), options_(options) {}

  absl::StatusOr<ExploreSummary> Run() {
    absl::Status status =
        Enter({SimulatedWorld(plan_), options_.max_cuts, options_.deaths});
    while (status.ok() && !path_.empty()) {
      Visit& visit = path_.back();
      if (visit.next == visit.events.size()) {
        path_.pop_back();
        continue;
      }
      const SimulatedEvent event = visit.events[visit.next++];
      Visit next = {visit.world, CutsLeft(visit, event),
                    visit.death_left && !Kills(event)};
      ++summary_.events;
      status = next.world.Apply(event);
      if (status.ok()) status = Enter(std::move(next));
    }
    if (status.ok()) return summary_;
    std::deque<SimulatedEvent> story;
    for (const Visit& visit : path_) {
      if (visit.next > 0) {
        story.push_back(visit.events[visit.next - 1]);
      }
    }
    return WithStory(status, plan_.ToString(), story);
  }

 private:
  static bool Kills(const SimulatedEvent& event) {
    return event.kind == SimulatedEvent::Kind::kDie ||
           event.kind == SimulatedEvent::Kind::kDieLossily;
  }

  static int CutsLeft(const Visit& visit, const SimulatedEvent& event) {
    const bool counts =
        event.cut && visit.cuts_left != ExploreOptions::kAnyNumber;
    return visit.cuts_left - (counts ? 1 : 0);
  }

  absl::Status Enter(Visit visit) {
    key_.clear();
    visit.world.AppendState(&key_);
    absl::StrAppend(&key_, visit.cuts_left, visit.death_left);
    const Hashes hashes = {absl::HashOf(key_), absl::HashOf(1, key_)};
    if (!visited_.insert(hashes).second) return absl::OkStatus();
    if (++summary_.states > options_.max_states) {
      return absl::ResourceExhaustedError("too many states");
    }
    visit.world.AppendEvents(visit.cuts_left != 0, &visit.events);
    const bool at_end = visit.events.empty();
    if (visit.death_left) AppendDeaths(visit.world, &visit.events);
    if (at_end) {
      SHOAL_RETURN_IF_ERROR(CountEnd(visit.world));
    }
    path_.push_back(std::move(visit));
    return absl::OkStatus();
  }

  void AppendDeaths(const SimulatedWorld& world,
                    std::vector<SimulatedEvent>* events) const {
    for (int rank = 0; rank < plan_.world_size; ++rank) {
      if (world.fate(rank) != Fate::kRunning) continue;
      for (const auto kind :
           {SimulatedEvent::Kind::kDie, SimulatedEvent::Kind::kDieLossily}) {
        SimulatedEvent event;
        event.kind = kind;
        event.rank = rank;
        events->push_back(event);
      }
    }
  }

  absl::Status CountEnd(const SimulatedWorld& world) {
    ++summary_.ends;
    const absl::Status end = world.CheckEnd();
    if (!end.ok()) {
      if (!options_.may_wait_forever) return end;
      ++summary_.waiting;
    }
    int finished = 0;
    bool mismatch = false;
    for (int rank = 0; rank < plan_.world_size; ++rank) {
      finished += world.fate(rank) == Fate::kFinished;
      if (world.fate(rank) != Fate::kFailed) continue;
      ++summary_.failed[world.fault(rank)];
      mismatch |= world.fault(rank) == EngineFault::Kind::kMismatch;
    }
    summary_.all_finished += finished == plan_.world_size;
    summary_.mismatch_found += mismatch;
    return absl::OkStatus();
  }

  using Hashes = std::pair<std::size_t, std::size_t>;

  const SimulationPlan& plan_;
  const ExploreOptions options_;
  ExploreSummary summary_;
  std::deque<Visit> path_;
  absl::flat_hash_set<Hashes> visited_;
  std::string key_;
};

// --- One order, from a seed -------------------------------------------------

// The same numbers everywhere, unlike std::uniform_int_distribution.
class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}

  // In [low, high].
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(generator_() % (high - low + 1));
  }
  bool OneIn(int n) { return Between(1, n) == 1; }

  template <typename List>
  auto& Of(List& list) {
    return *(std::begin(list) + Between(0, std::size(list) - 1));
  }

 private:
  std::mt19937_64 generator_;
};

// In which the inputs of simulated calls lose nothing.
WireFormat ExactWireFormat(const CallSignature& signature) {
  if (WireFormatTakes(WireFormat::kF32, signature.dtype)) {
    return WireFormat::kF32;
  }
  if (WireFormatTakes(WireFormat::kBF16, signature.dtype) &&
      signature.op != ReduceOp::kAverage &&
      signature.algorithm != Algorithm::kHalvingDoubling &&
      signature.algorithm != Algorithm::kTree) {
    return WireFormat::kBF16;
  }
  return WireFormat::kAsData;
}

SimulatedCall RandomCall(int world_size, Random* random) {
  constexpr CallKind kKinds[] = {CallKind::kAllReduce,     CallKind::kAllReduce,
                                 CallKind::kReduceScatter, CallKind::kAllGather,
                                 CallKind::kBroadcast,     CallKind::kBarrier,
                                 CallKind::kReduce,        CallKind::kGather,
                                 CallKind::kScatter,       CallKind::kAllToAll};
  SimulatedCall call;
  CallSignature& signature = call.signature;
  signature.kind = random->Of(kKinds);
  const absl::Span<const Algorithm> choice = AlgorithmsOf(signature.kind);
  signature.algorithm = random->Of(choice);
  if (signature.kind == CallKind::kBarrier) return call;
  signature.dtype = random->Of(kAllDTypes);
  signature.count =
      random->OneIn(4) ? random->Between(0, 2) : random->Between(0, 40);
  if (HasRoot(signature.kind)) {
    signature.root = static_cast<int>(random->Between(0, world_size - 1));
  }
  call.in_place = random->OneIn(2);
  if (HasReduction(signature.kind)) {
    do {
      signature.op = random->Of(kAllReduceOps);
    } while (!ReduceOpTakes(signature.op, signature.dtype));
    if (random->OneIn(2)) signature.wire = ExactWireFormat(signature);
  }
  return call;
}

SimulationPlan RandomPlan(bool disagree, Random* random) {
  SimulationPlan plan;
  plan.world_size = static_cast<int>(random->Between(1, 8));
  plan.slice_bytes = random->Between(1, 64);
  plan.capacity_bytes =
      random->OneIn(3) ? random->Between(1, 20) : random->Between(20, 400);
  plan.concurrent = static_cast<int>(random->Between(1, 4));
  std::vector<SimulatedCall> calls(random->Between(1, 5));
  for (SimulatedCall& call : calls) {
    call = RandomCall(plan.world_size, random);
    // In place a part makes room element by element: see schedule_direct.cc.
    if (call.signature.kind == CallKind::kAllToAll) {
      plan.capacity_bytes = std::max<std::size_t>(plan.capacity_bytes, 8);
    }
  }
  if (disagree) {
    // By which every rank hears of the difference at last.
    SimulatedCall barrier;
    barrier.signature.kind = CallKind::kBarrier;
    barrier.signature.algorithm = Algorithm::kDissemination;
    calls.push_back(barrier);
  }
  plan.calls.assign(plan.world_size, calls);
  if (disagree) {
    std::vector<SimulatedCall>& own = random->Of(plan.calls);
    const std::int64_t which = random->Between(0, own.size() - 2);
    if (random->OneIn(2)) {
      own[which] = RandomCall(plan.world_size, random);
    } else {
      own.erase(own.begin() + which);  // one behind the others
    }
  }
  // What is in place is a rank's own affair.
  for (std::vector<SimulatedCall>& own : plan.calls) {
    for (SimulatedCall& call : own) {
      if (random->OneIn(4)) call.in_place = !call.in_place;
    }
  }
  return plan;
}

bool Disagree(const SimulationPlan& plan) {
  for (const std::vector<SimulatedCall>& calls : plan.calls) {
    if (calls.size() != plan.calls[0].size()) return true;
    for (std::size_t k = 0; k < calls.size(); ++k) {
      if (calls[k].signature != plan.calls[0][k].signature) return true;
    }
  }
  return false;
}

class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed)
      : seed_(seed),
        random_(seed),
        plan_(RandomPlan(random_.OneIn(5), &random_)),
        world_(plan_) {
    // Some ranks are slower than others.
    for (int rank = 0; rank < plan_.world_size; ++rank) {
      weights_.push_back(random_.OneIn(4) ? 1 : random_.Between(1, 20));
    }
    if (random_.OneIn(4)) fate_at_ = random_.Between(0, 300);
    eagerness_ = static_cast<int>(random_.Between(1, 3));
  }

  absl::StatusOr<RandomSummary> Run() {
    absl::Status status = Play();
    if (!status.ok()) {
      return WithStory(status,
                       absl::StrCat("seed ", seed_, ", ", plan_.ToString()),
                       events_);
    }
    return Summarize();
  }

 private:
  static constexpr std::int64_t kTooMany = 1'000'000;
  static constexpr std::size_t kStoryEvents = 60;

  absl::Status Play() {
    std::vector<SimulatedEvent> possible;
    for (;;) {
      possible.clear();
      world_.AppendEvents(/*with_cuts=*/false, &possible);
      if (possible.empty()) break;
      if (count_ == fate_at_) {
        SHOAL_RETURN_IF_ERROR(Apply(StrikeOfFate()));
      }
      if (random_.OneIn(10)) {
        SHOAL_RETURN_IF_ERROR(Apply(Spurious()));
      }
      SHOAL_RETURN_IF_ERROR(Apply(Choose(possible)));
      if (count_ > kTooMany) return absl::InternalError("no end in sight");
    }
    const absl::Status end = world_.CheckEnd();
    waiting_ = !end.ok();
    // A rank that called something else may leave others to their time-out.
    return Disagree(plan_) ? absl::OkStatus() : end;
  }

  absl::Status Apply(const SimulatedEvent& event) {
    ++count_;
    events_.push_back(event);
    if (events_.size() > kStoryEvents) events_.pop_front();
    return world_.Apply(event);
  }

  SimulatedEvent Choose(const std::vector<SimulatedEvent>& possible) {
    std::int64_t total = 0;
    for (const SimulatedEvent& event : possible) total += weights_[event.rank];
    std::int64_t at = random_.Between(0, total - 1);
    SimulatedEvent chosen;
    for (const SimulatedEvent& event : possible) {
      chosen = event;
      at -= weights_[event.rank];
      if (at < 0) break;
    }
    if (!random_.OneIn(eagerness_)) chosen.permit = RandomPermit();
    return chosen;
  }

  Permit RandomPermit() {
    Permit permit;
    permit.bytes =
        random_.OneIn(3) ? random_.Between(1, 9) : random_.Between(1, 200);
    permit.end = true;
    return permit;
  }

  // A link that is ready without being asked for, or asked for and not ready.
  SimulatedEvent Spurious() {
    SimulatedEvent event;
    event.kind = random_.OneIn(2) ? SimulatedEvent::Kind::kRead
                                  : SimulatedEvent::Kind::kWrite;
    event.rank = static_cast<int>(random_.Between(0, plan_.world_size - 1));
    event.peer = static_cast<int>(random_.Between(0, plan_.world_size - 1));
    if (random_.OneIn(2)) event.permit = RandomPermit();
    return event;
  }

  SimulatedEvent StrikeOfFate() {
    constexpr SimulatedEvent::Kind kKinds[] = {
        SimulatedEvent::Kind::kDie, SimulatedEvent::Kind::kDieLossily,
        SimulatedEvent::Kind::kGiveUp};
    SimulatedEvent event;
    event.kind = random_.Of(kKinds);
    event.rank = static_cast<int>(random_.Between(0, plan_.world_size - 1));
    return event;
  }

  RandomSummary Summarize() const {
    RandomSummary summary;
    summary.plan = plan_;
    summary.events = count_;
    summary.disagreed = Disagree(plan_);
    summary.waiting = waiting_;
    for (int rank = 0; rank < plan_.world_size; ++rank) {
      summary.finished += world_.fate(rank) == Fate::kFinished;
      summary.failed += world_.fate(rank) == Fate::kFailed;
      summary.dead += world_.fate(rank) == Fate::kDead;
      summary.mismatch_found |=
          world_.fault(rank) == EngineFault::Kind::kMismatch;
    }
    return summary;
  }

  const std::uint64_t seed_;
  Random random_;
  const SimulationPlan plan_;
  SimulatedWorld world_;
  std::vector<std::int64_t> weights_;
  std::int64_t fate_at_ = -1;
  int eagerness_ = 1;
  std::int64_t count_ = 0;
  std::deque<SimulatedEvent> events_;
  bool waiting_ = false;
};

}  // namespace

std::string ExploreSummary::ToString() const {
  std::string text = absl::StrCat(
      states, " states, ", events, " events, ", ends, " ends, of them ",
      all_finished, " with all finished, ", waiting, " waiting, ",
      mismatch_found, " with a mismatch found; failed ranks by fault:");
  for (const auto& [kind, count] : failed) {
    absl::StrAppend(&text, " ", static_cast<int>(kind), "=", count);
  }
  return text;
}

absl::StatusOr<ExploreSummary> ExploreAll(const SimulationPlan& plan,
                                          const ExploreOptions& options) {
  return Explorer(plan, options).Run();
}

absl::StatusOr<RandomSummary> RunRandom(std::uint64_t seed) {
  return RandomRun(seed).Run();
}

}  // namespace shoal::internal
