// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/communicator.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_builder.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/comm_stats.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/packed_buffers.h"
#include "shoal/comm/pending_operation.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/trace_event.h"

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

absl::Status Communicator::AllGatherV(ConstBuffer input, Buffer output,
                                      absl::Span<const std::int64_t> counts,
                                      const CallOptions& options) {
  return Run(Make().AllGatherV(input, output, counts, options), options);
}

absl::Status Communicator::Reduce(ConstBuffer input, Buffer output, ReduceOp op,
                                  int root, const CallOptions& options) {
  return Run(Make().Reduce(input, output, op, root, options), options);
}

absl::Status Communicator::Reduce(Buffer buffer, ReduceOp op, int root,
                                  const CallOptions& options) {
  return Reduce(buffer, buffer, op, root, options);
}

absl::Status Communicator::Gather(ConstBuffer input, Buffer output, int root,
                                  const CallOptions& options) {
  return Run(Make().Gather(input, output, root, options), options);
}

absl::Status Communicator::Scatter(ConstBuffer input, Buffer output, int root,
                                   const CallOptions& options) {
  return Run(Make().Scatter(input, output, root, options), options);
}

absl::Status Communicator::AllToAll(ConstBuffer input, Buffer output,
                                    const CallOptions& options) {
  return Run(Make().AllToAll(input, output, options), options);
}

absl::Status Communicator::AllToAllV(ConstBuffer input,
                                     absl::Span<const std::int64_t> send_counts,
                                     Buffer output,
                                     absl::Span<const std::int64_t> recv_counts,
                                     const CallOptions& options) {
  return Run(Make().AllToAllV(input, send_counts, output, recv_counts, options),
             options);
}

absl::Status Communicator::AllReduceCoalesced(absl::Span<const Buffer> buffers,
                                              ReduceOp op,
                                              const CallOptions& options) {
  SHOAL_ASSIGN_OR_RETURN(Call call,
                         Make().AllReduceCoalesced(buffers, op, options));
  if (buffers.size() == 1) return Run(call, options);
  SHOAL_ASSIGN_OR_RETURN(internal::PackedBuffers packed,
                         internal::PackedBuffers::Pack(buffers));
  call.input = packed.data();
  call.output = packed.data();
  SHOAL_RETURN_IF_ERROR(Run(call, options));
  packed.Unpack();
  return absl::OkStatus();
}

absl::Status Communicator::BroadcastString(std::string* bytes, int root,
                                           const CallOptions& options) {
  std::int64_t size = static_cast<std::int64_t>(bytes->size());
  SHOAL_RETURN_IF_ERROR(
      Broadcast(BufferOf(absl::MakeSpan(&size, 1)), root, options));
  if (rank() != root) {
    try {
      bytes->resize(static_cast<std::size_t>(size));
    } catch (const std::exception&) {
      // The others are on their way to the second broadcast.
      const absl::Status status = absl::ResourceExhaustedError(
          absl::StrCat("BroadcastString: rank ", rank(), " has no memory for ",
                       size, " bytes from rank ", root));
      Abort(status);
      return status;
    }
  }
  return Broadcast({bytes->data(), size, DType::kU8}, root, options);
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
  const bool alone = to == rank() && from == rank();
  if (alone) {
    SHOAL_RETURN_IF_ERROR(status());
  }
  SHOAL_ASSIGN_OR_RETURN(const auto calls,
                         Make().SendRecv(send, to, recv, from, tag, options));
  if (!alone) return Execute(calls, options);
  if (send.count > 0) {
    std::memcpy(recv.data, send.data,
                static_cast<std::size_t>(send.count) * DTypeSize(send.dtype));
  }
  return absl::OkStatus();
}

absl::StatusOr<PendingOperation> Communicator::RunBeside(
    const absl::StatusOr<Call>& call, const CallOptions& options) {
  SHOAL_RETURN_IF_ERROR(call.status());
  return Start(absl::MakeConstSpan(&*call, 1), options);
}

absl::StatusOr<PendingOperation> Communicator::StartAllReduce(
    ConstBuffer input, Buffer output, ReduceOp op, const CallOptions& options) {
  return RunBeside(Make().AllReduce(input, output, op, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartAllReduce(
    Buffer buffer, ReduceOp op, const CallOptions& options) {
  return StartAllReduce(buffer, buffer, op, options);
}

absl::StatusOr<PendingOperation> Communicator::StartAllReduceCoalesced(
    absl::Span<const Buffer> buffers, ReduceOp op, const CallOptions& options) {
  SHOAL_ASSIGN_OR_RETURN(Call call,
                         Make().AllReduceCoalesced(buffers, op, options));
  if (buffers.size() == 1) return RunBeside(call, options);
  SHOAL_ASSIGN_OR_RETURN(internal::PackedBuffers packed,
                         internal::PackedBuffers::Pack(buffers));
  call.input = packed.data();
  call.output = packed.data();
  SHOAL_ASSIGN_OR_RETURN(PendingOperation sum, RunBeside(call, options));
  return PendingOperation(std::make_unique<internal::UnpackingOperation>(
      std::move(packed), std::move(sum)));
}

absl::StatusOr<PendingOperation> Communicator::StartReduceScatter(
    ConstBuffer input, Buffer output, ReduceOp op, const CallOptions& options) {
  return RunBeside(Make().ReduceScatter(input, output, op, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartAllGather(
    ConstBuffer input, Buffer output, const CallOptions& options) {
  return RunBeside(Make().AllGather(input, output, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartAllGatherV(
    ConstBuffer input, Buffer output, absl::Span<const std::int64_t> counts,
    const CallOptions& options) {
  return RunBeside(Make().AllGatherV(input, output, counts, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartReduce(
    ConstBuffer input, Buffer output, ReduceOp op, int root,
    const CallOptions& options) {
  return RunBeside(Make().Reduce(input, output, op, root, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartReduce(
    Buffer buffer, ReduceOp op, int root, const CallOptions& options) {
  return StartReduce(buffer, buffer, op, root, options);
}

absl::StatusOr<PendingOperation> Communicator::StartGather(
    ConstBuffer input, Buffer output, int root, const CallOptions& options) {
  return RunBeside(Make().Gather(input, output, root, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartScatter(
    ConstBuffer input, Buffer output, int root, const CallOptions& options) {
  return RunBeside(Make().Scatter(input, output, root, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartAllToAll(
    ConstBuffer input, Buffer output, const CallOptions& options) {
  return RunBeside(Make().AllToAll(input, output, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartAllToAllV(
    ConstBuffer input, absl::Span<const std::int64_t> send_counts,
    Buffer output, absl::Span<const std::int64_t> recv_counts,
    const CallOptions& options) {
  return RunBeside(
      Make().AllToAllV(input, send_counts, output, recv_counts, options),
      options);
}

absl::StatusOr<PendingOperation> Communicator::StartBroadcast(
    Buffer buffer, int root, const CallOptions& options) {
  return RunBeside(Make().Broadcast(buffer, root, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartBarrier(
    const CallOptions& options) {
  return RunBeside(Make().Barrier(options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartSend(
    ConstBuffer buffer, int to, int tag, const CallOptions& options) {
  return RunBeside(Make().Send(buffer, to, tag, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartRecv(
    Buffer buffer, int from, int tag, const CallOptions& options) {
  return RunBeside(Make().Recv(buffer, from, tag, options), options);
}

absl::StatusOr<PendingOperation> Communicator::StartSendRecv(
    ConstBuffer send, int to, Buffer recv, int from, int tag,
    const CallOptions& options) {
  if (to == rank() && from == rank()) {
    // A copy, which does not wait.
    SHOAL_RETURN_IF_ERROR(SendRecv(send, to, recv, from, tag, options));
    return PendingOperation(absl::OkStatus());
  }
  SHOAL_ASSIGN_OR_RETURN(const auto calls,
                         Make().SendRecv(send, to, recv, from, tag, options));
  return Start(calls, options);
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Split(
    int color, int key, const CallOptions& options) {
  // The rules of the options are those of a call without arguments.
  SHOAL_RETURN_IF_ERROR(Make().Barrier(options).status());
  if (options.algorithm != Algorithm::kAuto) {
    return absl::InvalidArgumentError(
        absl::StrCat("Split: has no choice of algorithms, but ",
                     AlgorithmName(options.algorithm), " is asked for"));
  }
  return DoSplit(color, key, options);
}

void Communicator::Abort(const absl::Status& reason) {
  DoAbort(reason.ok()
              ? absl::CancelledError("Abort was called without a reason")
              : reason);
}

CommStats Communicator::stats() const { return log().stats(); }

void Communicator::StartTrace(std::size_t max_events) {
  log().StartTrace(max_events);
}

std::vector<TraceEvent> Communicator::TakeTrace() { return log().TakeTrace(); }

}  // namespace shoal
