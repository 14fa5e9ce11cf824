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

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/call.h"
#include "shoal/comm/communicator.h"

namespace shoal {

class IdentityCommunicator final : public Communicator {
 public:
  IdentityCommunicator() = default;

  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  absl::Status status() const override;

 private:
  absl::Status Execute(absl::Span<const Call> calls,
                       const CallOptions& options) override;
  void DoAbort(const absl::Status& reason) override;

  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_COMM_IDENTITY_COMMUNICATOR_H_
