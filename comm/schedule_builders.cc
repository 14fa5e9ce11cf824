// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/schedule_builders.h"

#include <cstdint>

#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

// Appenders; each returns the index of its step.

std::int32_t Append(const Step& step, Schedule* schedule) {
  schedule->steps.push_back(step);
  return static_cast<std::int32_t>(schedule->steps.size()) - 1;
}

std::int32_t Send(int peer, const BufferRange& range, Schedule* schedule) {
  Step step;
  step.kind = StepKind::kSend;
  step.peer = peer;
  step.target = range;
  return Append(step, schedule);
}

std::int32_t Receive(int peer, const BufferRange& range, Schedule* schedule) {
  Step step;
  step.kind = StepKind::kReceive;
  step.peer = peer;
  step.target = range;
  return Append(step, schedule);
}

struct Operands {
  BufferRange target;
  BufferRange source;
  bool source_first = true;
};

std::int32_t ReceiveReduce(int peer, const Operands& operands, bool completes,
                           Schedule* schedule) {
  Step step;
  step.kind = StepKind::kReceiveReduce;
  step.peer = peer;
  step.target = operands.target;
  step.source = operands.source;
  step.source_first = operands.source_first;
  step.completes = completes;
  return Append(step, schedule);
}

std::int32_t Copy(const BufferRange& target, const BufferRange& source,
                  Schedule* schedule) {
  Step step;
  step.kind = StepKind::kCopy;
  step.target = target;
  step.source = source;
  return Append(step, schedule);
}

int Modulo(int value, int n) { return (value % n + n) % n; }

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
    Operands operands;
    operands.target = partial(received);
    operands.source = own(received);
    operands.source_first = false;
    ReceiveReduce(previous, operands, /*completes=*/s == n - 2, schedule);
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
    if (in_place && c == rank) return output;
    return BufferRange{BufferId::kInput, c * count, count};
  };
  const auto partial = [&](int c) {
    return in_place && c != rank ? scratch : output;
  };
  if (in_place && schedule->world_size > 2) schedule->scratch_count = count;
  AddRingReduction(own, partial, schedule);
}

void AddRingAllGather(bool in_place, Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  const auto part = [&](int c) {
    return BufferRange{BufferId::kOutput, c * count, count};
  };
  const BufferRange input = {BufferId::kInput, 0, count};
  const BufferRange output = part(schedule->rank);
  AddRingGathering(
      in_place ? output : input, part,
      [&] {
        if (!in_place) Copy(output, input, schedule);
      },
      schedule);
}

// R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
// communication operations in MPICH", 2005. With p the largest power of two
// within the n ranks, ranks 2i and 2i + 1 below 2(n - p) first add up on 2i.
// The p ranks left then exchange whole vectors with the partner whose number
// among them differs in one bit, from the lowest bit upward; both compute the
// same sum, the lower one's operand first. Last, 2i gives 2i + 1 the result.
void AddRecursiveDoublingAllReduce(bool in_place, Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  const int n = schedule->world_size;
  const int rank = schedule->rank;
  const BufferRange output = {BufferId::kOutput, 0, count};
  int p = 1;
  while (p <= n / 2) p *= 2;
  const int pairs = n - p;

  // Where this rank's operand is: input, and then the sum so far.
  BufferRange current = output;
  if (!in_place) current.buffer = BufferId::kInput;
  if (rank < 2 * pairs && rank % 2 == 1) {
    Send(rank - 1, current, schedule);
    Receive(rank - 1, output, schedule);
    return;
  }
  if (rank < 2 * pairs) {
    ReceiveReduce(rank + 1, {output, current, /*source_first=*/true},
                  /*completes=*/false, schedule);
    current = output;
  }
  const int number = rank < 2 * pairs ? rank / 2 : rank - pairs;
  for (int bit = 1; bit < p; bit *= 2) {
    const int partner_number = number ^ bit;
    const int partner =
        partner_number < pairs ? 2 * partner_number : partner_number + pairs;
    Send(partner, current, schedule);
    ReceiveReduce(partner, {output, current, /*source_first=*/rank < partner},
                  /*completes=*/2 * bit == p, schedule);
    current = output;
  }
  if (rank < 2 * pairs) Send(rank + 1, output, schedule);
}

// Ranks are numbered from the root. The parent of a number is the number
// without its lowest one bit; a rank serves its largest subtree first.
void AddBinomialTreeBroadcast(Schedule* schedule) {
  const int n = schedule->world_size;
  const int root = schedule->signature.root;
  const int number = Modulo(schedule->rank - root, n);
  const BufferRange output = {BufferId::kOutput, 0, schedule->signature.count};
  std::int64_t bit = 1;
  while (bit < n && (number & bit) == 0) bit *= 2;
  if (number != 0) {
    Receive(static_cast<int>((number - bit + root) % n), output, schedule);
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (number + bit < n) {
      Send(static_cast<int>((number + bit + root) % n), output, schedule);
    }
  }
}

// D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier
// synchronization", 1988. In round k a rank tells the one 2^k above it that the
// 2^k ranks up to itself have entered. Empty messages imply no order, so it is
// given: each step waits for all receives of the rounds before it.
void AddDisseminationBarrier(Schedule* schedule) {
  const std::int64_t n = schedule->world_size;
  const std::int64_t rank = schedule->rank;
  const BufferRange nothing = {BufferId::kOutput, 0, 0};
  std::int32_t last_receive = -1;
  for (std::int64_t distance = 1; distance < n; distance *= 2) {
    const std::int32_t send =
        Send(static_cast<int>((rank + distance) % n), nothing, schedule);
    const std::int32_t receive =
        Receive(static_cast<int>((rank - distance + n) % n), nothing, schedule);
    schedule->steps[send].after = last_receive;
    schedule->steps[receive].after = last_receive;
    last_receive = receive;
  }
}

}  // namespace shoal::internal
