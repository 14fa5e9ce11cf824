// SPDX-License-Identifier: Apache-2.0
//
// The communicator of a world of one rank.
//
// Every collective is the identity: the output is the input, bit for bit, and
// nothing is sent. There is nobody to exchange messages with, so that Send and
// Recv are refused like any message to oneself.
//
// The thread rules are those of communicator.h.

#ifndef SHOAL_COMM_IDENTITY_COMMUNICATOR_H_
#define SHOAL_COMM_IDENTITY_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/pending_operation.h"

namespace shoal {

class IdentityCommunicator final : public Communicator {
 public:
  IdentityCommunicator() : fate_(std::make_shared<Fate>()) {}

  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  absl::Status status() const override;

 private:
  absl::Status Execute(absl::Span<const Call> calls,
                       const CallOptions& options) override;
  // Done at once.
  absl::StatusOr<PendingOperation> Start(absl::Span<const Call> calls,
                                         const CallOptions& options) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(
      int color, int key, const CallOptions& options) override;
  void DoAbort(const absl::Status& reason) override;
  internal::CallLog& log() const override { return log_; }

  // Shared with the communicators that `Split` makes.
  struct Fate {
    Mutex mutex;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };

  explicit IdentityCommunicator(std::shared_ptr<Fate> fate)
      : fate_(std::move(fate)) {}

  const std::shared_ptr<Fate> fate_;
  std::atomic<std::uint64_t> calls_{0};
  mutable internal::CallLog log_;
};

}  // namespace shoal

#endif  // SHOAL_COMM_IDENTITY_COMMUNICATOR_H_
