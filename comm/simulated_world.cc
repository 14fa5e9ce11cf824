// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/simulated_world.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/simulated_call.h"
#include "shoal/comm/simulated_link.h"

namespace shoal::internal {
namespace {

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

// More calls of `Progress` than any event of a simulation is good for.
constexpr int kRestlessness = 100'000;

// Where a message is cut: after its first byte, inside the header, at its end,
// and one byte into the second element of four bytes.
constexpr std::size_t kCuts[] = {1, 40, kMessageHeaderSize,
                                 kMessageHeaderSize + 5};

bool Agree(const SimulationPlan& plan, int a, int b, int call) {
  return call < static_cast<int>(plan.calls[b].size()) &&
         plan.calls[a][call].signature == plan.calls[b][call].signature;
}

}  // namespace

// What all copies of a world have in common. `memory` and `pipes` are those of
// the copy, and the rank, that is at work.
struct SimulatedWorld::Shared {
  SimulationPlan plan;
  std::vector<std::vector<std::shared_ptr<const Schedule>>> schedules;
  // Where in a rank's memory each of its calls has its own.
  std::vector<std::vector<std::size_t>> memory_at;
  std::vector<std::string> memory;  // by rank; never reallocated
  SimulatedPipe* pipes = nullptr;
  std::vector<std::unique_ptr<SimulatedLink>> links;
};

std::string SimulationPlan::ToString() const {
  std::string text = absl::StrCat(
      "world ", world_size, ", slices of ", slice_bytes, " bytes, links of ",
      capacity_bytes, " bytes, ", concurrent, " calls at once");
  for (int rank = 0; rank < world_size; ++rank) {
    absl::StrAppend(&text, "\n  rank ", rank, ":");
    for (const SimulatedCall& call : calls[rank]) {
      absl::StrAppend(&text, " ", call.signature.ToString(),
                      call.in_place ? " in place" : "");
    }
  }
  return text;
}

std::string SimulatedEvent::ToString() const {
  std::string bytes =
      permit.bytes == kEverything ? "all" : absl::StrCat(permit.bytes);
  switch (kind) {
    case Kind::kRead:
      return absl::StrCat("rank ", rank, " reads ", bytes, " from ", peer);
    case Kind::kWrite:
      return absl::StrCat("rank ", rank, " writes ", bytes, " to ", peer);
    case Kind::kDie:
      return absl::StrCat("rank ", rank, " dies");
    case Kind::kDieLossily:
      return absl::StrCat("rank ", rank, " dies, its last bytes are lost");
    case Kind::kGiveUp:
      return absl::StrCat("rank ", rank, " gives up");
  }
  return "";
}

SimulatedWorld::SimulatedWorld(const SimulationPlan& plan)
    : shared_(std::make_shared<Shared>()),
      ranks_(plan.world_size),
      pipes_(plan.world_size * plan.world_size) {
  const int n = plan.world_size;
  Shared& shared = *shared_;
  shared.plan = plan;
  shared.schedules.resize(n);
  shared.memory_at.resize(n);
  shared.memory.resize(n);
  for (SimulatedPipe& pipe : pipes_) pipe.capacity = plan.capacity_bytes;
  for (int rank = 0; rank < n; ++rank) {
    for (std::size_t k = 0; k < plan.calls[rank].size(); ++k) {
      const SimulatedCall& call = plan.calls[rank][k];
      shared.memory_at[rank].push_back(shared.memory[rank].size());
      shared.memory[rank] += MemoryBefore(call, rank, n, static_cast<int>(k));
      shared.schedules[rank].push_back(std::make_shared<const Schedule>(
          BuildSchedule(call.signature, rank, n, call.in_place).value()));
    }
    std::vector<Link*> links(n);
    for (int peer = 0; peer < n; ++peer) {
      if (peer == rank) continue;
      shared.links.push_back(std::make_unique<SimulatedLink>(
          &shared.pipes, rank * n + peer, peer * n + rank));
      links[peer] = shared.links.back().get();
    }
    ranks_[rank].memory =
        std::make_shared<const std::string>(shared.memory[rank]);
    ranks_[rank].engine = std::make_shared<Engine>(
        rank, n, links, EngineOptions{.slice_bytes = plan.slice_bytes});
  }
  // Nothing can go wrong yet: no link gives or takes anything.
  for (int rank = 0; rank < n; ++rank) {
    ranks_[rank].status = Drive(rank);
  }
}

SimulatedPipe& SimulatedWorld::pipe(int from, int to) {
  return pipes_[from * shared_->plan.world_size + to];
}

const SimulatedPipe& SimulatedWorld::pipe(int from, int to) const {
  return pipes_[from * shared_->plan.world_size + to];
}

namespace {

void AppendCuts(const MessageFrame& frame, std::size_t at_most,
                SimulatedEvent event, std::vector<SimulatedEvent>* events) {
  for (const std::size_t cut : kCuts) {
    if (cut <= frame.offset() || cut - frame.offset() >= at_most) continue;
    event.permit.bytes = cut - frame.offset();
    event.cut = true;
    events->push_back(event);
  }
}

}  // namespace

void SimulatedWorld::AppendEvents(bool with_cuts,
                                  std::vector<SimulatedEvent>* events) const {
  std::vector<LinkInterest> interests;
  for (int rank = 0; rank < shared_->plan.world_size; ++rank) {
    if (ranks_[rank].fate != Fate::kRunning) continue;
    interests.clear();
    ranks_[rank].engine->AppendInterest(&interests);
    for (const LinkInterest& interest : interests) {
      SimulatedEvent event;
      event.rank = rank;
      event.peer = interest.peer;
      event.permit = {kEverything, /*within_message=*/true, /*end=*/true};
      const SimulatedPipe& in = pipe(interest.peer, rank);
      if (interest.read && (in.finished || !in.in_flight.empty())) {
        event.kind = SimulatedEvent::Kind::kRead;
        events->push_back(event);
        if (with_cuts) {
          AppendCuts(in.read_frame, in.in_flight.size(), event, events);
        }
      }
      const SimulatedPipe& out = pipe(rank, interest.peer);
      if (interest.write && (out.broken || out.room() > 0)) {
        event.kind = SimulatedEvent::Kind::kWrite;
        events->push_back(event);
        if (with_cuts && !out.broken) {
          AppendCuts(out.write_frame, out.room(), event, events);
        }
      }
    }
  }
}

absl::Status SimulatedWorld::Apply(const SimulatedEvent& event) {
  using Kind = SimulatedEvent::Kind;
  Rank& rank = ranks_[event.rank];
  if (rank.fate != Fate::kRunning) return absl::OkStatus();
  switch (event.kind) {
    case Kind::kRead:
      pipe(event.peer, event.rank).may_read = event.permit;
      break;
    case Kind::kWrite:
      pipe(event.rank, event.peer).may_write = event.permit;
      break;
    case Kind::kDie:
    case Kind::kDieLossily:
      rank.fate = Fate::kDead;
      Leave(event.rank, event.kind == Kind::kDieLossily);
      rank.state.clear();
      return absl::OkStatus();
    case Kind::kGiveUp:
      break;
  }
  if (rank.engine.use_count() > 1) rank.engine = rank.engine->Clone();
  if (event.kind == Kind::kGiveUp) {
    rank.engine->Fail(absl::DeadlineExceededError("gave up"));
  }
  absl::Status status = Drive(event.rank);
  if (event.kind == Kind::kRead) {
    pipe(event.peer, event.rank).may_read = {};
  } else if (event.kind == Kind::kWrite) {
    pipe(event.rank, event.peer).may_write = {};
  }
  return status;
}

// Lends the rank its memory and the links their pipes, and lets it run.
absl::Status SimulatedWorld::Drive(int index) {
  Rank& rank = ranks_[index];
  std::string& memory = shared_->memory[index];
  std::memcpy(memory.data(), rank.memory->data(), memory.size());
  shared_->pipes = pipes_.data();
  absl::Status status = Advance(index);
  if (std::memcmp(memory.data(), rank.memory->data(), memory.size()) != 0) {
    rank.memory = std::make_shared<const std::string>(memory);
  }
  rank.state.clear();
  return status;
}

absl::Status SimulatedWorld::Advance(int index) {
  Rank& rank = ranks_[index];
  std::size_t done_before = 0;
  do {
    done_before = std::count(rank.done.begin(), rank.done.end(), true);
    StartCalls(index);
    int moves = 0;
    while (rank.engine->Progress()) {
      if (++moves > kRestlessness) {
        return absl::InternalError(
            absl::StrCat("rank ", index, " never comes to rest"));
      }
    }
    SHOAL_RETURN_IF_ERROR(CheckDone(index));
  } while (rank.fate == Fate::kRunning &&
           done_before != static_cast<std::size_t>(std::count(
                              rank.done.begin(), rank.done.end(), true)));
  if (rank.fate != Fate::kRunning) Leave(index, /*lossily=*/false);
  return absl::OkStatus();
}

void SimulatedWorld::StartCalls(int index) {
  Rank& rank = ranks_[index];
  const SimulationPlan& plan = shared_->plan;
  while (rank.done.size() < plan.calls[index].size() &&
         std::count(rank.done.begin(), rank.done.end(), false) <
             plan.concurrent) {
    const std::size_t k = rank.done.size();
    const SimulatedCall& planned = plan.calls[index][k];
    const CallMemory layout = LayOut(planned, index, plan.world_size);
    char* const memory =
        shared_->memory[index].data() + shared_->memory_at[index][k];
    Call call;
    call.signature = planned.signature;
    call.input = memory + layout.input_at;
    call.output = memory + layout.output_at;
    rank.engine->Start(shared_->schedules[index][k], call);
    rank.done.push_back(false);
  }
}

absl::Status SimulatedWorld::CheckDone(int index) {
  Rank& rank = ranks_[index];
  for (std::size_t k = 0; k < rank.done.size(); ++k) {
    const Engine::OperationId id = k + 1;
    if (rank.done[k] || !rank.engine->IsDone(id)) continue;
    const absl::Status result = rank.engine->result(id);
    rank.engine->Forget(id);
    rank.done[k] = true;
    if (result.ok()) {
      SHOAL_RETURN_IF_ERROR(CheckResult(index, static_cast<int>(k)));
      continue;
    }
    rank.fate = Fate::kFailed;
    rank.status = result;
    rank.fault = rank.engine->fault().kind;
    SHOAL_RETURN_IF_ERROR(CheckFault(index));
  }
  if (rank.fate == Fate::kRunning &&
      rank.done.size() == shared_->plan.calls[index].size() &&
      std::count(rank.done.begin(), rank.done.end(), false) == 0) {
    rank.fate = Fate::kFinished;
  }
  return absl::OkStatus();
}

absl::Status SimulatedWorld::CheckResult(int index, int call) const {
  const SimulationPlan& plan = shared_->plan;
  const SimulatedCall& planned = plan.calls[index][call];
  const std::string what =
      absl::StrCat("rank ", index, " succeeds in ",
                   planned.signature.ToString(), " #", call + 1);
  if (!MaySucceed(index, call)) {
    return absl::InternalError(
        absl::StrCat(what, " although the ranks disagree"));
  }
  // A barrier is there to hold everyone until the last one comes.
  for (const Rank& other : ranks_) {
    if (planned.signature.kind != CallKind::kBarrier) break;
    if (other.done.size() <= static_cast<std::size_t>(call)) {
      return absl::InternalError(
          absl::StrCat(what, " before every rank has entered it"));
    }
  }
  const std::string expected =
      MemoryAfter(planned, index, plan.world_size, call);
  const std::string actual = shared_->memory[index].substr(
      shared_->memory_at[index][call], expected.size());
  if (!SameMemory(planned, index, plan.world_size, actual, expected)) {
    return absl::InternalError(absl::StrCat(what, " with wrong data"));
  }
  return absl::OkStatus();
}

// A broadcast is a matter between the root and those that hear of it. Messages
// without payload wait for no other, so that with no elements a rank hears of
// its neighbours only. All the rest needs everyone.
bool SimulatedWorld::MaySucceed(int rank, int call) const {
  const SimulationPlan& plan = shared_->plan;
  const CallSignature& signature = plan.calls[rank][call].signature;
  if (signature.kind != CallKind::kBarrier && signature.count == 0) return true;
  if (signature.kind == CallKind::kBroadcast ||
      signature.kind == CallKind::kScatter) {
    return Agree(plan, rank, signature.root, call);
  }
  // Others than the root send, and may hear from nobody.
  if ((signature.kind == CallKind::kReduce ||
       signature.kind == CallKind::kGather) &&
      rank != signature.root) {
    return true;
  }
  for (int other = 0; other < plan.world_size; ++other) {
    if (!Agree(plan, rank, other, call)) return false;
  }
  return true;
}

absl::Status SimulatedWorld::CheckFault(int index) const {
  const SimulationPlan& plan = shared_->plan;
  const EngineFault& fault = ranks_[index].engine->fault();
  const std::string what =
      absl::StrCat("rank ", index, " fails: ", ranks_[index].status.ToString());
  bool disagree = false;
  for (int a = 0; a < plan.world_size; ++a) {
    disagree |= plan.calls[a].size() != plan.calls[0].size();
    for (std::size_t k = 0; k < plan.calls[a].size() && !disagree; ++k) {
      disagree |= !Agree(plan, a, 0, static_cast<int>(k));
    }
  }
  bool explained = false;
  switch (fault.kind) {
    case EngineFault::Kind::kNone:  // gave up
      explained = absl::IsDeadlineExceeded(ranks_[index].status);
      break;
    case EngineFault::Kind::kPeerLost:
      // One that has finished ends its links as well, and is missed by a rank
      // that calls something else.
      explained = ranks_[fault.peer].fate == Fate::kDead ||
                  ranks_[fault.peer].fate == Fate::kFailed ||
                  (disagree && ranks_[fault.peer].fate == Fate::kFinished);
      break;
    case EngineFault::Kind::kMismatch:
      explained = disagree;
      break;
    case EngineFault::Kind::kCorrupt:
    case EngineFault::Kind::kUnable:
      break;
  }
  if (explained) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, ", for which there is no reason"));
}

void SimulatedWorld::Leave(int index, bool lossily) {
  for (int peer = 0; peer < shared_->plan.world_size; ++peer) {
    SimulatedPipe& out = pipe(index, peer);
    out.finished = true;
    if (lossily) out.in_flight.clear();
    pipe(peer, index).broken = true;
  }
}

absl::Status SimulatedWorld::CheckEnd() const {
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    if (ranks_[index].fate != Fate::kRunning) continue;
    const std::vector<int> awaited = ranks_[index].engine->AwaitedPeers();
    std::string text;
    for (const int peer : awaited) absl::StrAppend(&text, " ", peer);
    return absl::DeadlineExceededError(
        absl::StrCat("rank ", index, " waits for ever for:", text));
  }
  return absl::OkStatus();
}

const std::string& SimulatedWorld::StateOf(const Rank& rank) {
  if (!rank.state.empty()) return rank.state;
  absl::StrAppend(&rank.state, "rank ", static_cast<int>(rank.fate), " ",
                  static_cast<int>(rank.fault), " ", rank.done.size(), " ");
  // What a rank that is gone leaves behind is in its links.
  if (rank.fate == Fate::kRunning) {
    rank.engine->AppendState(&rank.state);
    rank.state += *rank.memory;
  }
  return rank.state;
}

void SimulatedWorld::AppendState(std::string* state) const {
  for (const Rank& rank : ranks_) *state += StateOf(rank);
  for (const SimulatedPipe& pipe : pipes_) pipe.AppendState(state);
}

}  // namespace shoal::internal
