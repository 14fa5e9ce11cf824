// SPDX-License-Identifier: Apache-2.0
//
// What the functions of schedule_builders.h have in common: appending a step,
// and where parts lie. Not for others.

#ifndef SHOAL_COMM_SCHEDULE_STEPS_H_
#define SHOAL_COMM_SCHEDULE_STEPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {

// Each appends a step and returns its index.

std::int32_t Send(int peer, const BufferRange& range, Schedule* schedule);
std::int32_t Receive(int peer, const BufferRange& range, Schedule* schedule);
// What is received comes first: target = (received) op source.
std::int32_t ReceiveThenReduce(int peer, const BufferRange& target,
                               const BufferRange& source, bool completes,
                               Schedule* schedule);
// target = source op (received).
std::int32_t ReduceWithReceived(int peer, const BufferRange& target,
                                const BufferRange& source, bool completes,
                                Schedule* schedule);
std::int32_t Copy(const BufferRange& target, const BufferRange& source,
                  Schedule* schedule);
// Completes.
std::int32_t Fold(const BufferRange& target, std::vector<BufferRange> operands,
                  Schedule* schedule);

// In [0, n), for values from -n on.
inline int Modulo(std::int64_t value, std::int64_t n) {
  return static_cast<int>((value + n) % n);
}

// Part `index` of a buffer in equal parts of the signature's count.
BufferRange EqualPart(BufferId buffer, const Schedule& schedule, int index);

// Part `index` of a buffer whose parts have these counts.
BufferRange PartOf(BufferId buffer, absl::Span<const std::int64_t> counts,
                   int index);

// AllToAll and AllToAllV: what goes to `rank`, and what comes from there.
BufferRange SentPart(const Schedule& schedule, int rank);
BufferRange ReceivedPart(const Schedule& schedule, int rank);

// AllGather and AllGatherV: what comes from `rank`.
BufferRange GatheredPart(const Schedule& schedule, int rank);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SCHEDULE_STEPS_H_
