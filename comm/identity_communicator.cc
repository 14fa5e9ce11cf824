// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/identity_communicator.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/pending_operation.h"

namespace shoal {

absl::Status IdentityCommunicator::status() const {
  MutexLock lock(&fate_->mutex);
  return fate_->status;
}

absl::Status IdentityCommunicator::Execute(absl::Span<const Call> calls,
                                           const CallOptions& /*options*/) {
  SHOAL_RETURN_IF_ERROR(status());
  internal::CallRecord record;
  record.begin_ns = internal::MonotonicNanoseconds();
  // A world of one has no Send and Recv: the only rank is the caller's own.
  const Call& call = calls[0];
  SHOAL_RETURN_IF_ERROR(
      ChooseAlgorithm(call.signature, /*world_size=*/1, AlgorithmPolicy())
          .status());
  // To this rank itself.
  const std::int64_t count = call.signature.kind == CallKind::kAllToAllV
                                 ? call.counts[0]
                                 : call.signature.count;
  const std::size_t bytes =
      static_cast<std::size_t>(count) * DTypeSize(call.signature.dtype);
  if (bytes > 0 && call.output != call.input) {
    std::memcpy(call.output, call.input, bytes);
  }
  record.call = &call;
  record.sequence = ++calls_;
  record.bytes = static_cast<std::int64_t>(bytes);
  record.end_ns = internal::MonotonicNanoseconds();
  log_.Add(record);
  return absl::OkStatus();
}

absl::StatusOr<PendingOperation> IdentityCommunicator::Start(
    absl::Span<const Call> calls, const CallOptions& options) {
  SHOAL_RETURN_IF_ERROR(Execute(calls, options));
  return PendingOperation(absl::OkStatus());
}

absl::StatusOr<std::unique_ptr<Communicator>> IdentityCommunicator::DoSplit(
    int color, int /*key*/, const CallOptions& /*options*/) {
  SHOAL_RETURN_IF_ERROR(status());
  if (color < 0) return nullptr;
  return std::unique_ptr<Communicator>(new IdentityCommunicator(fate_));
}

void IdentityCommunicator::DoAbort(const absl::Status& reason) {
  MutexLock lock(&fate_->mutex);
  fate_->status.Update(reason);
}

}  // namespace shoal
