// SPDX-License-Identifier: Apache-2.0
//
// Trees and chains.

#include <cstdint>

#include "shoal/comm/schedule.h"
#include "shoal/comm/schedule_builders.h"
#include "shoal/comm/schedule_steps.h"

namespace shoal::internal {
namespace {

// Ranks are numbered from the root. The parent of a number is the number
// without its lowest one bit; a rank serves its largest subtree first.
void AddBinomialTree(int root, Schedule* schedule) {
  const std::int64_t n = schedule->world_size;
  const std::int64_t number = Modulo(schedule->rank - root, n);
  const BufferRange output = {BufferId::kOutput, 0, schedule->signature.count};
  std::int64_t bit = 1;
  while (bit < n && (number & bit) == 0) bit *= 2;
  if (number != 0) Receive(Modulo(number - bit + root, n), output, schedule);
  for (bit /= 2; bit > 0; bit /= 2) {
    if (number + bit < n) {
      Send(Modulo(number + bit + root, n), output, schedule);
    }
  }
}

// Ranks [begin, end) of a tree.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool contains(std::int64_t rank) const { return begin <= rank && rank < end; }
  // Who has the interval's sum: the root if it is in there.
  int holder(int root) const {
    return contains(root) ? root : static_cast<int>(begin);
  }
};

// The sum of 2k, or fewer, ranks is that of the first k and that of the others,
// for powers of two k: the shape depends on nothing but the world size. Each
// part's holder has its sum, and hands it to the other part's if that holds
// the whole's. `own` is this rank's operand; where it has sums of several, they
// go to `sum`.
void AddTreeReduction(int root, const BufferRange& own, const BufferRange& sum,
                      Schedule* schedule) {
  const std::int64_t n = schedule->world_size;
  const std::int64_t rank = schedule->rank;
  BufferRange current = own;
  for (std::int64_t size = 1; size < n; size *= 2) {
    const std::int64_t begin = rank / (2 * size) * (2 * size);
    const std::int64_t middle = begin + size;
    if (middle >= n) continue;  // nobody to add up with yet
    const Interval whole = {begin, middle + size < n ? middle + size : n};
    const Interval first = {begin, middle};
    const Interval second = {middle, whole.end};
    const bool in_first = first.contains(rank);
    const int other = (in_first ? second : first).holder(root);
    if (whole.holder(root) != rank) {
      Send(other, current, schedule);
      return;
    }
    const bool completes = whole.begin == 0 && whole.end == n;
    if (in_first) {
      ReduceWithReceived(other, sum, current, completes, schedule);
    } else {
      ReceiveThenReduce(other, sum, current, completes, schedule);
    }
    current = sum;
  }
}

}  // namespace

void AddBinomialTreeBroadcast(bool /*in_place*/, Schedule* schedule) {
  AddBinomialTree(schedule->signature.root, schedule);
}

void AddTreeAllReduce(bool in_place, Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  AddTreeReduction(/*root=*/0,
                   {in_place ? BufferId::kOutput : BufferId::kInput, 0, count},
                   {BufferId::kOutput, 0, count}, schedule);
  AddBinomialTree(/*root=*/0, schedule);
}

// Only the root has an output: others keep their sums in scratch.
void AddTreeReduce(bool in_place, Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  const int root = schedule->signature.root;
  const bool is_root = schedule->rank == root;
  AddTreeReduction(
      root,
      {in_place && is_root ? BufferId::kOutput : BufferId::kInput, 0, count},
      {is_root ? BufferId::kOutput : BufferId::kScratch, 0, count}, schedule);
  for (const Step& step : schedule->steps) {
    if (step.kind == StepKind::kReceiveReduce && !is_root) {
      schedule->scratch_count = count;
    }
  }
}

// Down from the root; each element goes on as it comes.
void AddChainBroadcast(bool /*in_place*/, Schedule* schedule) {
  const int n = schedule->world_size;
  const int number = Modulo(schedule->rank - schedule->signature.root, n);
  const BufferRange output = {BufferId::kOutput, 0, schedule->signature.count};
  if (number > 0) Receive(Modulo(schedule->rank - 1, n), output, schedule);
  if (number < n - 1) Send(Modulo(schedule->rank + 1, n), output, schedule);
}

// From the rank after the root on, around to the root; each adds its operand on
// the right:
//   ((x[root+1] op x[root+2]) op ...) op x[root]
void AddChainReduce(bool in_place, Schedule* schedule) {
  const std::int64_t count = schedule->signature.count;
  const int n = schedule->world_size;
  const int root = schedule->signature.root;
  const bool is_root = schedule->rank == root;
  const int next = Modulo(schedule->rank + 1, n);
  const int previous = Modulo(schedule->rank - 1, n);
  const BufferRange input = {
      in_place && is_root ? BufferId::kOutput : BufferId::kInput, 0, count};
  if (previous == root) {
    Send(next, input, schedule);
    return;
  }
  const BufferRange sum = {is_root ? BufferId::kOutput : BufferId::kScratch, 0,
                           count};
  ReceiveThenReduce(previous, sum, input, /*completes=*/is_root, schedule);
  if (is_root) return;
  schedule->scratch_count = count;
  Send(next, sum, schedule);
}

}  // namespace shoal::internal
