// SPDX-License-Identifier: Apache-2.0
//
// Runs the schedules of all ranks together, over symbols instead of numbers and
// queues instead of sockets. Part of the target `schedule_verifier`.
//
// The rules are those that schedule.h gives the engine: order by link and
// direction, `depends_on` by comparing cursors, `after`. A link holds at most
// `link_capacity` items; an item is one element or one message's header, so
// that empty messages take room as well. A header leaves together with the
// first element.
//
// One run decides for all: a step that may proceed stays so until it does,
// whatever else happens, so that every order of events ends in the same state.
// (That the data do not depend on the order either is what the verifier's proof
// about `depends_on` shows.)

#ifndef SHOAL_COMM_SYMBOLIC_EXECUTION_H_
#define SHOAL_COMM_SYMBOLIC_EXECUTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/symbolic_expression.h"

namespace shoal::internal {

// Where a rank's buffers lie in its memory; in place they overlap.
struct MemoryLayout {
  std::int64_t input_begin = 0;
  std::int64_t output_begin = 0;
  std::int64_t scratch_begin = 0;
  std::int64_t size = 0;

  static MemoryLayout Of(const Schedule& schedule, bool in_place);
  std::int64_t Address(const BufferRange& range) const;
};

// One element of memory: what has been computed for which element of the
// collective's vector.
struct SymbolicValue {
  ExpressionId expression = -1;  // -1: nothing was ever written here
  std::int32_t element = -1;

  friend bool operator==(const SymbolicValue& a, const SymbolicValue& b) {
    return a.expression == b.expression && a.element == b.element;
  }
};

class SymbolicExecution {
 public:
  // The schedules are those of ranks 0, 1, ... and have to be well formed;
  // they and `expressions` must outlive this object.
  SymbolicExecution(absl::Span<const Schedule> schedules,
                    const std::vector<MemoryLayout>& layouts,
                    std::int64_t link_capacity, ExpressionTable* expressions);

  // Before `Run`.
  void SetMemory(int rank, std::int64_t address, SymbolicValue value) {
    ranks_[rank].memory[address] = value;
  }

  // Runs to the end. An error says at which rank and step it went wrong.
  absl::Status Run();

  // After `Run`.
  SymbolicValue memory(int rank, std::int64_t address) const {
    return ranks_[rank].memory[address];
  }

  // The ranks that are certain to have entered a barrier before `rank` has
  // completed all its steps, in every order of events, as `after` and the
  // messages show.
  std::vector<bool> KnownToHaveEntered(int rank) const;

 private:
  // The cursor of an earlier step, plus `offset`, limits this one's.
  struct Bound {
    std::int32_t step = 0;
    std::int64_t offset = 0;
  };

  struct StepState {
    std::int64_t processed = 0;
    bool header_done = false;
    bool complete = false;
    std::vector<Bound> bounds;
    // Ranks that have certainly entered once the step is complete.
    std::vector<bool> known;
  };

  struct RankState {
    const Schedule* schedule = nullptr;
    MemoryLayout layout;
    std::vector<SymbolicValue> memory;
    std::vector<StepState> steps;
    std::vector<std::int32_t> local_steps;
    std::vector<int> outgoing;  // channels
    std::vector<int> incoming;
    bool queued = false;
  };

  // The way from one rank to another.
  struct Channel {
    int from = 0;
    int to = 0;
    std::vector<std::int32_t> sends;
    std::vector<std::int32_t> receives;
    std::size_t next_send = 0;
    std::size_t next_receive = 0;
    std::vector<SymbolicValue> items;  // from `head` on
    std::size_t head = 0;
  };

  int FindChannel(int from, int to, std::vector<int>* lookup);
  void ComputeBounds(RankState* rank);
  std::int64_t Allowed(const RankState& rank, std::int32_t step) const;
  bool HasRoom(const Channel& channel) const;
  void Wake(int rank);
  void Complete(RankState* rank, std::int32_t step, const Channel* channel);

  // Each moves what can be moved; true if anything did.
  absl::Status RunRank(int rank, bool* moved);
  bool RunSends(Channel* channel);
  absl::Status RunReceives(Channel* channel, bool* moved);
  absl::Status RunLocal(RankState* rank, std::int32_t step, bool* moved);
  // Processes one element: `received` is what came.
  absl::Status Take(RankState* rank, std::int32_t step, SymbolicValue received);
  absl::Status TakeFolded(RankState* rank, std::int32_t step);
  absl::Status Combine(const RankState& rank, std::int32_t step,
                       SymbolicValue second, SymbolicValue* first) const;
  absl::Status Unfinished() const;

  const std::int64_t link_capacity_;
  ExpressionTable* const expressions_;
  std::vector<RankState> ranks_;
  std::vector<Channel> channels_;
  std::vector<int> awake_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SYMBOLIC_EXECUTION_H_
