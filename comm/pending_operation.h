// SPDX-License-Identifier: Apache-2.0
//
// The handle of an operation that was started and goes on beside its caller.
//
//   SHOAL_ASSIGN_OR_RETURN(PendingOperation sum,
//                          communicator->StartAllReduce(buffer, op));
//   ... compute something else; leave `buffer` alone ...
//   SHOAL_RETURN_IF_ERROR(sum.Wait());
//
// Every operation that was started is completed exactly once: with success, or
// with the first error of its job, which also ends it when the communicator is
// aborted or destroyed. Until then its memory belongs to it.
//
// Progress. Whoever waits drives: `Wait` moves the bytes of all operations of
// the communicator on the calling thread, and `Test` moves what can be moved at
// once. While nobody waits, a thread of the library that serves all
// communicators of the process does.
//
// Time-outs. An operation has the time-out of its CallOptions, or its
// communicator's, counted from its start. Once it is over, the operation fails
// as a blocking one does, whether somebody waits for it or not.
//
// Lifetime. A handle may outlive its communicator. Destroying a handle (or
// assigning over it) before the operation is done waits for it, at most to its
// time-out and the search for the culprit.
//
// Threads. `Wait` and `Test` may be called from any thread, by several at the
// same time. Moving and destroying a handle may not overlap with other uses.

#ifndef SHOAL_COMM_PENDING_OPERATION_H_
#define SHOAL_COMM_PENDING_OPERATION_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"

namespace shoal {

namespace internal {

// An implementation's operation under way. The rules are those of the handle;
// the destructor waits.
class StartedOperation {
 public:
  virtual ~StartedOperation() = default;
  virtual absl::Status Wait() = 0;
  virtual bool Test() = 0;
};

}  // namespace internal

class [[nodiscard]] PendingOperation {
 public:
  // Done, with `FAILED_PRECONDITION`: no operation was started. So is a handle
  // that was moved from.
  PendingOperation() : PendingOperation(NothingStarted()) {}
  // Done, with `result`.
  explicit PendingOperation(absl::Status result) : result_(std::move(result)) {}
  explicit PendingOperation(
      std::unique_ptr<internal::StartedOperation> operation)
      : operation_(std::move(operation)) {}

  PendingOperation(PendingOperation&& other) noexcept
      : operation_(std::move(other.operation_)),
        result_(std::exchange(other.result_, NothingStarted())) {}
  PendingOperation& operator=(PendingOperation&& other) noexcept {
    if (this == &other) return *this;
    operation_ = std::move(other.operation_);
    result_ = std::exchange(other.result_, NothingStarted());
    return *this;
  }

  // Blocks until the operation is done, and returns its result; again the same
  // one if it is called again.
  absl::Status Wait() {
    return operation_ == nullptr ? result_ : operation_->Wait();
  }

  // Whether the operation is done, so that `Wait` would return at once. Does
  // not block. No operation needs to be tested in order to go on.
  [[nodiscard]] bool Test() {
    return operation_ == nullptr || operation_->Test();
  }

 private:
  static absl::Status NothingStarted() {
    return absl::FailedPreconditionError(
        "this handle has no operation: it was moved from, or none was started");
  }

  std::unique_ptr<internal::StartedOperation> operation_;
  absl::Status result_;  // counts when `operation_` is null
};

}  // namespace shoal

#endif  // SHOAL_COMM_PENDING_OPERATION_H_
