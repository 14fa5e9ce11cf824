// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/communicator.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_builder.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

namespace shoal {

internal::CallBuilder Communicator::Make() const {
  return internal::CallBuilder(rank(), world_size());
}

absl::Status Communicator::Run(const absl::StatusOr<Call>& call,
                               const CallOptions& options) {
  SHOAL_RETURN_IF_ERROR(call.status());
  return Execute(absl::MakeConstSpan(&*call, 1), options);
}

absl::Status Communicator::AllReduce(ConstBuffer input, Buffer output,
                                     ReduceOp op, const CallOptions& options) {
  return Run(Make().AllReduce(input, output, op, options), options);
}

absl::Status Communicator::AllReduce(Buffer buffer, ReduceOp op,
                                     const CallOptions& options) {
  return AllReduce(buffer, buffer, op, options);
}

absl::Status Communicator::ReduceScatter(ConstBuffer input, Buffer output,
                                         ReduceOp op,
                                         const CallOptions& options) {
  return Run(Make().ReduceScatter(input, output, op, options), options);
}

absl::Status Communicator::AllGather(ConstBuffer input, Buffer output,
                                     const CallOptions& options) {
  return Run(Make().AllGather(input, output, options), options);
}

absl::Status Communicator::Broadcast(Buffer buffer, int root,
                                     const CallOptions& options) {
  return Run(Make().Broadcast(buffer, root, options), options);
}

absl::Status Communicator::Barrier(const CallOptions& options) {
  return Run(Make().Barrier(options), options);
}

absl::Status Communicator::Send(ConstBuffer buffer, int to, int tag,
                                const CallOptions& options) {
  return Run(Make().Send(buffer, to, tag, options), options);
}

absl::Status Communicator::Recv(Buffer buffer, int from, int tag,
                                const CallOptions& options) {
  return Run(Make().Recv(buffer, from, tag, options), options);
}

absl::Status Communicator::SendRecv(ConstBuffer send, int to, Buffer recv,
                                    int from, int tag,
                                    const CallOptions& options) {
  SHOAL_ASSIGN_OR_RETURN(const auto calls,
                         Make().SendRecv(send, to, recv, from, tag, options));
  if (to != rank()) return Execute(calls, options);
  SHOAL_RETURN_IF_ERROR(status());
  if (send.count > 0) {
    std::memcpy(recv.data, send.data,
                static_cast<std::size_t>(send.count) * DTypeSize(send.dtype));
  }
  return absl::OkStatus();
}

void Communicator::Abort(const absl::Status& reason) {
  DoAbort(reason.ok()
              ? absl::CancelledError("Abort was called without a reason")
              : reason);
}

}  // namespace shoal
