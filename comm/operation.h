// SPDX-License-Identifier: Apache-2.0
//
// The operations that an engine has under way: for each the cursor of every
// step of its schedule, and what the cursors allow.
//
// `Operation` knows the memory and the data dependencies of one call;
// `OperationTable` numbers the operations and keeps them until they are
// forgotten. Neither knows of links. Slots are used again, so that nothing is
// allocated once the largest number of concurrent operations has been seen.
//
// Copies are independent of one another, but name the same caller's memory.
// Not thread-safe.

#ifndef SHOAL_COMM_OPERATION_H_
#define SHOAL_COMM_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/encoding.h"
#include "shoal/comm/ring_queue.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/user_reduction.h"

namespace shoal::internal {

class Operation {
 public:
  // Enters all steps at their beginning.
  void Start(std::uint64_t id, std::shared_ptr<const Schedule> schedule,
             const Call& call);

  // The memory beside the caller's that the operation needs: made ready before
  // any step is run. False if there is none.
  bool PrepareMemory();
  std::size_t memory_bytes() const { return scratch_bytes() + copied_bytes(); }

  // Drops the schedule; memory is kept for the next operation.
  void Clear();

  std::uint64_t id() const { return id_; }
  const Schedule& schedule() const { return *schedule_; }
  const Step& step(int index) const { return schedule_->steps[index]; }
  // How elements lie in messages; in memory they have `element_size` bytes.
  const Encoding& encoding() const { return encoding_; }
  std::size_t element_size() const { return element_size_; }
  int steps_left() const { return steps_left_; }

  std::size_t payload_bytes(int index) const {
    return encoding_.Bytes(step(index).target.count);
  }

  // The memory of a step's target, from its first element on.
  char* Target(int index) { return At(step(index).target); }

  // How many of the step's elements, counted from its first, may be processed
  // by now: as far as all earlier steps on which it depends have come, in whole
  // units of the encoding. -1 while the step may not even begin.
  std::int64_t Allowed(int index) const;

  std::int64_t processed(int index) const { return cursors_[index].processed; }
  void SetProcessed(int index, std::int64_t elements) {
    cursors_[index].processed = elements;
  }

  // The step needs nothing more: all its elements are processed, and the
  // message of a send or a receive is through.
  void CompleteStep(int index);

  // These process `count` elements from the cursor on, which moves. `received`
  // is what came from the peer, as it is in messages and of any alignment.
  // REQUIRES: the kind of the step, and that `Allowed` goes so far.
  void Reduce(int index, const char* received, std::int64_t count);
  // A copy or a fold.
  void RunLocal(int index, std::int64_t count);
  void Decode(int index, const char* received, std::int64_t count);
  // For a send, unless elements are sent as they are: writes them to `bytes` as
  // the message has them.
  void Encode(int index, std::int64_t count, char* bytes);

  // All steps are complete: puts the result where the caller wants it.
  void Finish();

  // "AllReduce(f32 x 100, sum, ring) #7".
  std::string ToString() const;

  void AppendState(std::string* state) const;

 private:
  struct Cursor {
    std::int64_t processed = 0;
    bool complete = false;
  };

  std::size_t scratch_bytes() const {
    return static_cast<std::size_t>(schedule_->scratch_count) * element_size_;
  }
  std::size_t copied_bytes() const {
    return static_cast<std::size_t>(copied_count_) * sizeof(float);
  }
  bool in_float() const { return output_copy_at_ >= 0; }

  void Copy(int index, std::int64_t count);
  void Fold(int index, std::int64_t count);
  void ReduceDecoded(int index, const char* received, std::int64_t count);

  bool IsInPlace(const Call& call) const;
  bool RoundsOperands() const;
  bool RoundsResult() const;
  void PlanCopies(const Call& call);
  void FillCopies();

  // The memory that the steps work on.
  char* Input();
  char* Output();
  char* At(const BufferRange& range);
  char* Source(int index) { return At(step(index).source); }
  void Advance(int index, std::int64_t count);

  std::uint64_t id_ = 0;
  std::shared_ptr<const Schedule> schedule_;
  // Of the memory that the steps work on.
  DType memory_dtype_ = DType::kU8;
  std::size_t element_size_ = 1;
  Encoding encoding_ = Encoding::AsTheyAre(DType::kU8);
  const UserReduction* user_reduction_ = nullptr;
  // The caller's.
  char* input_ = nullptr;
  char* output_ = nullptr;
  std::vector<Cursor> cursors_;
  int steps_left_ = 0;
  std::vector<char> scratch_;  // grows only
  std::vector<const char*> operands_;
  // Copies of the caller's memory on which the steps work instead: of all of
  // it, in f32, where partial sums are not to be rounded; of the input, where
  // it is not to be written to. Grows only.
  std::vector<float> copies_;
  std::int64_t copied_count_ = 0;
  // Where the copy of the output begins; -1: the output is the caller's.
  std::int64_t output_copy_at_ = -1;
};

class OperationTable {
 public:
  // The number of the new operation's slot.
  std::uint32_t Start(std::shared_ptr<const Schedule> schedule,
                      const Call& call);

  Operation& at(std::uint32_t slot) { return slots_[slot]; }
  const Operation& at(std::uint32_t slot) const { return slots_[slot]; }

  // Completes the operation with its last step. One without steps is complete
  // when it starts.
  void CompleteStep(std::uint32_t slot, int step);

  // All operations that are not complete are done with `status`.
  void FailAll(const absl::Status& status) { failure_ = status; }
  const absl::Status& failure() const { return failure_; }

  bool IsDone(std::uint64_t id) const;
  absl::Status result(std::uint64_t id) const;
  void Forget(std::uint64_t id);

  std::uint64_t last_started() const { return next_id_ - 1; }
  // The operations up to this one are all complete.
  std::uint64_t last_completed() const { return last_completed_; }
  // Null: none.
  const Operation* oldest_unfinished() const;

  void AppendState(std::string* state) const;

 private:
  struct Entry {
    std::uint32_t slot = 0;
    bool complete = false;
    bool forgotten = false;
  };

  void CompleteOperation(std::uint32_t slot);
  Entry* Find(std::uint64_t id);
  const Entry* Find(std::uint64_t id) const;

  std::uint64_t next_id_ = 1;
  std::uint64_t last_completed_ = 0;
  absl::Status failure_;
  std::vector<Operation> slots_;
  std::vector<std::uint32_t> free_slots_;
  // Those from the oldest that is not forgotten on.
  RingQueue<Entry> entries_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_OPERATION_H_
