// SPDX-License-Identifier: Apache-2.0
//
// A collective algorithm as data: what one rank sends, receives and reduces.
//
// A `Schedule` is the list of the steps of one rank. It names peers and ranges
// of elements and knows neither types nor memory nor sockets, so that it can be
// proved by symbolic execution for worlds far larger than a machine
// (schedule_verifier.h), priced (cost_model.h), and run (engine.h).
//
// How a schedule is run. Sends to one peer go out in the order of the list, and
// receives from one peer come in in the order of the list: the k-th send to a
// peer is the k-th receive there. Everything else may overlap, down to single
// elements, as far as data allows: a step may process an element only when
// every earlier step that touches the element (one of the two writing it) has
// processed it. Each step goes through its range in ascending order, so that
// this is a comparison of cursors. `Step::after` adds an order that data does
// not imply. Thus a ring is written down as "receive and reduce chunk c, then
// send chunk c", and receiving, reducing and sending overlap in slices by
// themselves.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_SCHEDULE_H_
#define SHOAL_COMM_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"

namespace shoal::internal {

enum class BufferId : std::uint8_t { kInput, kOutput, kScratch };

// Elements [begin, begin + count) of a buffer.
struct BufferRange {
  BufferId buffer = BufferId::kOutput;
  std::int64_t begin = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return begin + count; }
};

enum class StepKind : std::uint8_t {
  kSend,           // target is read and sent to peer
  kReceive,        // target is overwritten by what peer sends
  kReceiveReduce,  // target = source op received (or received op source)
  kCopy,           // target = source; no peer
  kFold,           // target = (operands[0] op operands[1]) op ...; no peer
};

// Whether a step of this kind is a matter of this rank alone.
inline bool IsLocal(StepKind kind) {
  return kind == StepKind::kCopy || kind == StepKind::kFold;
}

struct Step {
  StepKind kind = StepKind::kCopy;
  std::int32_t peer = -1;
  BufferRange target;
  // kReceiveReduce and kCopy: the local operand, as long as target. It may be
  // target itself.
  BufferRange source;
  // kReceiveReduce: the local operand comes first (source op received). Where
  // two ranks compute the same sum, the lower rank's operand comes first.
  bool source_first = true;
  // kFold: at least two, each as long as target, of which one may be target
  // itself. f16 and bf16 are folded in float and rounded once.
  std::vector<BufferRange> operands;
  // kReceiveReduce, kCopy and kFold: every rank's contribution is in the
  // result, so that the op's last part is applied (the division of an average).
  bool completes = false;
  // The index of an earlier step that has to be complete before this one
  // begins, its message included; -1: none.
  std::int32_t after = -1;
  // Filled in by `FinishSchedule`, ascending: earlier steps whose cursors bound
  // this one's, because both touch an element and one writes it. Those that
  // others of the list imply are left out.
  std::vector<std::int32_t> depends_on;
};

struct Schedule {
  CallSignature signature;  // algorithm is never kAuto
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  // See Call::counts.
  std::vector<std::int64_t> counts;
  // Elements of the call's buffers; Broadcast's only one counts as both. 0 for
  // a buffer that the call has on other ranks only.
  std::int64_t input_count = 0;
  std::int64_t output_count = 0;
  std::int64_t scratch_count = 0;
  std::vector<Step> steps;

  // For people: "AllReduce(f32 x 100, sum, ring)".
  std::string CallText() const { return signature.ToString(counts); }
  // For people: one line a step.
  std::string ToString() const;
};

// Part `index` of `count` elements cut into `parts` as evenly as possible: the
// first count % parts parts are one longer. Elements, not bytes.
BufferRange EvenPart(BufferId buffer, std::int64_t count, int parts, int index);

// What a schedule is made of.
struct ScheduleRequest {
  CallSignature signature;  // its algorithm is not kAuto
  // See Call::counts.
  std::vector<std::int64_t> counts;
  int rank = 0;
  int world_size = 1;
  // Input and output are the same memory in the sense of communicator.h; ranks
  // need not agree on it.
  bool in_place = false;
};

// The schedule of one rank; `AlgorithmsOf` in algorithm_policy.h says which
// collective has which algorithm. In place no step names both buffers for the
// same element, and what is at once input and output is named as output.
// Broadcast has one buffer, named as output, whatever `in_place` says, and
// AllToAllV is never in place. A world of one copies, or does nothing.
// `INVALID_ARGUMENT` for a rank outside the world, negative or overflowing
// counts, a root outside the world, an unknown type or op, or an algorithm that
// the collective does not have.
absl::StatusOr<Schedule> BuildSchedule(const ScheduleRequest& request);
// For calls without `counts`.
absl::StatusOr<Schedule> BuildSchedule(const CallSignature& signature, int rank,
                                       int world_size, bool in_place);

// Fills in `depends_on` of all steps. Called by `BuildSchedule`; for schedules
// made by hand.
void FinishSchedule(Schedule* schedule);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SCHEDULE_H_
