// SPDX-License-Identifier: Apache-2.0
//
// One hop: what a rank has for another goes straight there.

#include <cstdint>
#include <utility>
#include <vector>

#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/schedule_builders.h"
#include "shoal/comm/schedule_steps.h"

namespace shoal::internal {
namespace {

// Calls `send_to` and `receive_from` with every other rank, from the neighbours
// on around the world: in each round everyone sends one message and gets one.
template <typename SendTo, typename ReceiveFrom>
void ForEachRound(const Schedule& schedule, const SendTo& send_to,
                  const ReceiveFrom& receive_from) {
  const int n = schedule.world_size;
  for (int distance = 1; distance < n; ++distance) {
    send_to(Modulo(schedule.rank + distance, n));
    receive_from(Modulo(schedule.rank - distance, n));
  }
}

constexpr auto kNothing = [](int /*peer*/) {};

// Where the operand of `peer` for an element of `result` waits.
BufferRange Slot(int peer, const BufferRange& result,
                 const Schedule& schedule) {
  return {BufferId::kScratch,
          (peer < schedule.rank ? peer : peer - 1) * result.count,
          result.count};
}

// Folds what has come to the slots, and this rank's operand at `own`, in
// ascending order of the ranks.
void AddFoldOfSlots(const BufferRange& result, const BufferRange& own,
                    Schedule* schedule) {
  schedule->scratch_count = (schedule->world_size - 1) * result.count;
  std::vector<BufferRange> operands;
  for (int r = 0; r < schedule->world_size; ++r) {
    operands.push_back(r == schedule->rank ? own : Slot(r, result, *schedule));
  }
  Fold(result, std::move(operands), schedule);
}

BufferRange Whole(BufferId buffer, const Schedule& schedule) {
  return {buffer, 0, schedule.signature.count};
}

// Everyone sends `own` to all and receives part(r) from each rank r.
template <typename Part>
void AddDirectGathering(const BufferRange& own, const Part& part,
                        Schedule* schedule) {
  ForEachRound(
      *schedule, [&](int peer) { Send(peer, own, schedule); },
      [&](int peer) { Receive(peer, part(peer), schedule); });
}

// Everyone sends part(r) to each rank r and folds what comes with part(rank).
template <typename Part>
void AddDirectReduction(const Part& part, const BufferRange& result,
                        Schedule* schedule) {
  ForEachRound(
      *schedule, [&](int peer) { Send(peer, part(peer), schedule); },
      [&](int peer) {
        Receive(peer, Slot(peer, result, *schedule), schedule);
      });
  AddFoldOfSlots(result, part(schedule->rank), schedule);
}

}  // namespace

// Part c of an even cut belongs to rank c.
void AddDirectAllReduce(bool in_place, Schedule* schedule) {
  const auto part = [&](BufferId buffer, int c) {
    return EvenPart(buffer, schedule->signature.count, schedule->world_size, c);
  };
  const BufferId input = in_place ? BufferId::kOutput : BufferId::kInput;
  const BufferRange result = part(BufferId::kOutput, schedule->rank);
  AddDirectReduction([&](int peer) { return part(input, peer); }, result,
                     schedule);
  AddDirectGathering(
      result, [&](int peer) { return part(BufferId::kOutput, peer); },
      schedule);
}

// Everyone folds everything, in the same order.
void AddOneShotAllReduce(bool in_place, Schedule* schedule) {
  const BufferRange own =
      Whole(in_place ? BufferId::kOutput : BufferId::kInput, *schedule);
  AddDirectReduction([&](int /*peer*/) { return own; },
                     Whole(BufferId::kOutput, *schedule), schedule);
}

void AddDirectReduceScatter(bool in_place, Schedule* schedule) {
  const BufferRange output = Whole(BufferId::kOutput, *schedule);
  AddDirectReduction(
      [&](int peer) {
        return in_place && peer == schedule->rank
                   ? output
                   : EqualPart(BufferId::kInput, *schedule, peer);
      },
      output, schedule);
}

void AddDirectAllGather(bool in_place, Schedule* schedule) {
  const BufferRange output = GatheredPart(*schedule, schedule->rank);
  const BufferRange input = {BufferId::kInput, 0, output.count};
  AddDirectGathering(
      in_place ? output : input,
      [&](int peer) { return GatheredPart(*schedule, peer); }, schedule);
  if (!in_place) Copy(output, input, schedule);
}

// In place a part makes room for the one that comes from the same rank, element
// by element, as it leaves: so a link has to hold at least one whole element,
// or both ends wait for the rest of it.
void AddPairwiseAllToAll(bool in_place, Schedule* schedule) {
  const bool same = in_place && schedule->signature.kind == CallKind::kAllToAll;
  // All sends come first, so that no part is overwritten before it has left.
  ForEachRound(
      *schedule,
      [&](int peer) {
        BufferRange sent = SentPart(*schedule, peer);
        if (same) sent.buffer = BufferId::kOutput;
        Send(peer, sent, schedule);
      },
      kNothing);
  ForEachRound(*schedule, kNothing, [&](int peer) {
    Receive(peer, ReceivedPart(*schedule, peer), schedule);
  });
  if (!same) {
    Copy(ReceivedPart(*schedule, schedule->rank),
         SentPart(*schedule, schedule->rank), schedule);
  }
}

void AddLinearBroadcast(bool /*in_place*/, Schedule* schedule) {
  const int root = schedule->signature.root;
  const BufferRange whole = Whole(BufferId::kOutput, *schedule);
  if (schedule->rank != root) {
    Receive(root, whole, schedule);
    return;
  }
  ForEachRound(
      *schedule, [&](int peer) { Send(peer, whole, schedule); }, kNothing);
}

void AddLinearReduce(bool in_place, Schedule* schedule) {
  const int root = schedule->signature.root;
  if (schedule->rank != root) {
    Send(root, Whole(BufferId::kInput, *schedule), schedule);
    return;
  }
  const BufferRange result = Whole(BufferId::kOutput, *schedule);
  ForEachRound(*schedule, kNothing, [&](int peer) {
    Receive(peer, Slot(peer, result, *schedule), schedule);
  });
  AddFoldOfSlots(
      result, Whole(in_place ? BufferId::kOutput : BufferId::kInput, *schedule),
      schedule);
}

void AddLinearGather(bool in_place, Schedule* schedule) {
  const int root = schedule->signature.root;
  const BufferRange input = Whole(BufferId::kInput, *schedule);
  if (schedule->rank != root) {
    Send(root, input, schedule);
    return;
  }
  ForEachRound(*schedule, kNothing, [&](int peer) {
    Receive(peer, EqualPart(BufferId::kOutput, *schedule, peer), schedule);
  });
  if (!in_place) {
    Copy(EqualPart(BufferId::kOutput, *schedule, root), input, schedule);
  }
}

void AddLinearScatter(bool in_place, Schedule* schedule) {
  const int root = schedule->signature.root;
  const BufferRange output = Whole(BufferId::kOutput, *schedule);
  if (schedule->rank != root) {
    Receive(root, output, schedule);
    return;
  }
  ForEachRound(
      *schedule,
      [&](int peer) {
        Send(peer, EqualPart(BufferId::kInput, *schedule, peer), schedule);
      },
      kNothing);
  if (!in_place) {
    Copy(output, EqualPart(BufferId::kInput, *schedule, root), schedule);
  }
}

}  // namespace shoal::internal
