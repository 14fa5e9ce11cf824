// SPDX-License-Identifier: Apache-2.0
//
// Rings: parts travel from rank to rank.

#include <cstdint>

#include "shoal/comm/schedule.h"
#include "shoal/comm/schedule_builders.h"
#include "shoal/comm/schedule_steps.h"

namespace shoal::internal {
namespace {

// A ring's first half. Chunk c sets out from rank c + 1 and travels upward;
// each rank adds its own operand on the right, the last one is rank c:
//   ((x[c+1] op x[c+2]) op ...) op x[c]
// `own(c)` is where this rank's operand of chunk c lies, `partial(c)` where the
// fold of chunk c up to this rank goes; partial(rank) is the result's place.
template <typename Own, typename Partial>
void AddRingReduction(const Own& own, const Partial& partial,
                      Schedule* schedule) {
  const int n = schedule->world_size;
  const int rank = schedule->rank;
  const int next = Modulo(rank + 1, n);
  const int previous = Modulo(rank - 1, n);
  for (int s = 0; s < n - 1; ++s) {
    const int sent = Modulo(rank - 1 - s, n);
    Send(next, s == 0 ? own(sent) : partial(sent), schedule);
    const int received = Modulo(rank - 2 - s, n);
    ReceiveThenReduce(previous, partial(received), own(received),
                      /*completes=*/s == n - 2, schedule);
  }
}

// A ring's second half: rank r has part r, at `own`, and passes on what comes;
// `part(r)` is where part r goes. Calls `after_first_send` once.
template <typename Part, typename AfterFirstSend>
void AddRingGathering(const BufferRange& own, const Part& part,
                      const AfterFirstSend& after_first_send,
                      Schedule* schedule) {
  const int n = schedule->world_size;
  const int rank = schedule->rank;
  const int next = Modulo(rank + 1, n);
  const int previous = Modulo(rank - 1, n);
  for (int s = 0; s < n - 1; ++s) {
    Send(next, s == 0 ? own : part(Modulo(rank - s, n)), schedule);
    if (s == 0) after_first_send();
    Receive(previous, part(Modulo(rank - 1 - s, n)), schedule);
  }
}

}  // namespace

// Bandwidth-optimal: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009. The output holds the partial
// sums, so that no scratch is needed.
void AddRingAllReduce(bool in_place, Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  const int n = schedule->world_size;
  const BufferId input = in_place ? BufferId::kOutput : BufferId::kInput;
  const auto own = [&](int c) { return EvenPart(input, count, n, c); };
  const auto part = [&](int c) {
    return EvenPart(BufferId::kOutput, count, n, c);
  };
  AddRingReduction(own, part, schedule);
  AddRingGathering(
      part(schedule->rank), part, [] {}, schedule);
}

// All chunks are as long as the output. Partial sums pass through the output
// itself, one chunk after the other: an element is received once its
// predecessor has been sent on. In place the output holds this rank's operand,
// needed at the very end, so that scratch takes the output's part.
void AddRingReduceScatter(bool in_place, Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  const int rank = schedule->rank;
  const BufferRange output = {BufferId::kOutput, 0, count};
  const BufferRange scratch = {BufferId::kScratch, 0, count};
  const auto own = [&](int c) {
    return in_place && c == rank ? output
                                 : EqualPart(BufferId::kInput, *schedule, c);
  };
  const auto partial = [&](int c) {
    return in_place && c != rank ? scratch : output;
  };
  if (in_place && schedule->world_size > 2) schedule->scratch_count = count;
  AddRingReduction(own, partial, schedule);
}

void AddRingAllGather(bool in_place, Schedule* schedule) {
  const auto part = [&](int r) { return GatheredPart(*schedule, r); };
  const BufferRange output = part(schedule->rank);
  const BufferRange input = {BufferId::kInput, 0, output.count};
  AddRingGathering(
      in_place ? output : input, part,
      [&] {
        if (!in_place) Copy(output, input, schedule);
      },
      schedule);
}

}  // namespace shoal::internal
