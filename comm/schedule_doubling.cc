// SPDX-License-Identifier: Apache-2.0
//
// Exchanges with partners at doubling distances.

#include <cstdint>
#include <vector>

#include "shoal/comm/schedule.h"
#include "shoal/comm/schedule_builders.h"
#include "shoal/comm/schedule_steps.h"

namespace shoal::internal {
namespace {

// R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
// communication operations in MPICH", 2005. With p the largest power of two
// within the n ranks, ranks 2i and 2i + 1 below 2(n - p) first add up on 2i.
// The p ranks left are numbered anew, and have partners whose numbers differ in
// one bit. Last, 2i gives 2i + 1 the result.
class FoldedWorld {
 public:
  explicit FoldedWorld(const Schedule& schedule) : rank_(schedule.rank) {
    const int n = schedule.world_size;
    while (power_ <= n / 2) power_ *= 2;
    pairs_ = n - power_;
  }

  int power() const { return power_; }
  // Whether this rank hands its operand over, or takes one over.
  bool gives() const { return rank_ < 2 * pairs_ && rank_ % 2 == 1; }
  bool takes() const { return rank_ < 2 * pairs_ && rank_ % 2 == 0; }
  int number() const { return rank_ < 2 * pairs_ ? rank_ / 2 : rank_ - pairs_; }
  int partner(int bit) const {
    const int other = number() ^ bit;
    return other < pairs_ ? 2 * other : other + pairs_;
  }

 private:
  const int rank_;
  int power_ = 1;
  int pairs_ = 0;
};

// What both algorithms begin with; `current` is where this rank's operand is.
// False: this rank has nothing else to do.
bool AddFolding(const FoldedWorld& world, BufferRange* current,
                Schedule* schedule) {
  const int rank = schedule->rank;
  const BufferRange output = {BufferId::kOutput, 0, schedule->signature.count};
  if (world.gives()) {
    Send(rank - 1, *current, schedule);
    Receive(rank - 1, output, schedule);
    return false;
  }
  if (world.takes()) {
    ReduceWithReceived(rank + 1, output, *current, /*completes=*/false,
                       schedule);
    *current = output;
  }
  return true;
}

BufferRange Operand(bool in_place, const Schedule& schedule) {
  return {in_place ? BufferId::kOutput : BufferId::kInput, 0,
          schedule.signature.count};
}

// The lower rank's operand comes first; partners compute the same sum.
void ReduceInOrder(int partner, const BufferRange& target,
                   const BufferRange& source, bool completes,
                   Schedule* schedule) {
  if (schedule->rank < partner) {
    ReduceWithReceived(partner, target, source, completes, schedule);
  } else {
    ReceiveThenReduce(partner, target, source, completes, schedule);
  }
}

}  // namespace

// Partners exchange whole vectors, from the lowest bit upward.
void AddRecursiveDoublingAllReduce(bool in_place, Schedule* schedule) {
  const FoldedWorld world(*schedule);
  const BufferRange output = {BufferId::kOutput, 0, schedule->signature.count};
  BufferRange current = Operand(in_place, *schedule);
  if (!AddFolding(world, &current, schedule)) return;
  for (int bit = 1; bit < world.power(); bit *= 2) {
    const int partner = world.partner(bit);
    Send(partner, current, schedule);
    ReduceInOrder(partner, output, current, 2 * bit == world.power(), schedule);
    current = output;
  }
  if (world.takes()) Send(schedule->rank + 1, output, schedule);
}

// R. Rabenseifner, "Optimization of collective reduction operations", 2004.
// Partners share what they have in common: of the range that both hold partial
// sums of, the one with the lower number goes on with the first half. As the
// distances double from 1, each element is combined in the same order as by
// recursive doubling. Then the halves come together again, backward.
void AddHalvingDoublingAllReduce(bool in_place, Schedule* schedule) {
  const FoldedWorld world(*schedule);
  BufferRange current = Operand(in_place, *schedule);
  if (!AddFolding(world, &current, schedule)) return;
  const auto in_output = [](BufferRange range) {
    range.buffer = BufferId::kOutput;
    return range;
  };
  std::vector<BufferRange> sent;  // by bit
  for (int bit = 1; bit < world.power(); bit *= 2) {
    const int partner = world.partner(bit);
    BufferRange first = EvenPart(current.buffer, current.count, 2, 0);
    BufferRange second = EvenPart(current.buffer, current.count, 2, 1);
    first.begin += current.begin;
    second.begin += current.begin;
    const bool lower = (world.number() & bit) == 0;
    const BufferRange own = lower ? first : second;
    sent.push_back(lower ? second : first);
    Send(partner, sent.back(), schedule);
    ReduceInOrder(partner, in_output(own), own, 2 * bit == world.power(),
                  schedule);
    current = in_output(own);
  }
  for (int bit = world.power() / 2; bit > 0; bit /= 2) {
    const BufferRange other = in_output(sent.back());
    sent.pop_back();
    Send(world.partner(bit), current, schedule);
    Receive(world.partner(bit), other, schedule);
    current.begin = current.begin < other.begin ? current.begin : other.begin;
    current.count += other.count;
  }
  if (world.takes()) Send(schedule->rank + 1, current, schedule);
}

// D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier
// synchronization", 1988. In round k a rank tells the one 2^k above it that the
// 2^k ranks up to itself have entered. Empty messages imply no order, so it is
// given: each step waits for all receives of the rounds before it.
void AddDisseminationBarrier(bool /*in_place*/, Schedule* schedule) {
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
