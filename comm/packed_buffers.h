// SPDX-License-Identifier: Apache-2.0
//
// Several buffers as one piece of memory, for an operation on all of them.
//
// Movable. `PackedBuffers`: one thread at a time; `UnpackingOperation` as
// pending_operation.h says.

#ifndef SHOAL_COMM_PACKED_BUFFERS_H_
#define SHOAL_COMM_PACKED_BUFFERS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/pending_operation.h"

namespace shoal::internal {

class PackedBuffers {
 public:
  // A copy of all, one after the other. `RESOURCE_EXHAUSTED` when there is no
  // memory for it.
  static absl::StatusOr<PackedBuffers> Pack(absl::Span<const Buffer> buffers);

  char* data() { return memory_.get(); }

  // Copies everything back.
  void Unpack();

 private:
  explicit PackedBuffers(absl::Span<const Buffer> buffers)
      : buffers_(buffers.begin(), buffers.end()) {}

  std::vector<Buffer> buffers_;
  std::unique_ptr<char[]> memory_;
};

// An operation on a packed copy, which whoever first finds it done unpacks.
class UnpackingOperation final : public StartedOperation {
 public:
  UnpackingOperation(PackedBuffers packed, PendingOperation operation)
      : packed_(std::move(packed)), operation_(std::move(operation)) {}
  ~UnpackingOperation() override { Wait().IgnoreError(); }

  absl::Status Wait() override;
  bool Test() override;

 private:
  Mutex mutex_;
  bool unpacked_ ABSL_GUARDED_BY(mutex_) = false;
  // The operation's, until it is done; then under the lock.
  PackedBuffers packed_;
  PendingOperation operation_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_PACKED_BUFFERS_H_
