// SPDX-License-Identifier: Apache-2.0
//
// Makes checked calls of the arguments of Communicator's methods: one place for
// every implementation, and for blocking and started forms alike.
//
// Each method has the name, the arguments and the rules of the one of
// communicator.h, and `INVALID_ARGUMENT` for what breaks them. Nothing is sent,
// and no memory is touched. Values; thread-safe.

#ifndef SHOAL_COMM_CALL_BUILDER_H_
#define SHOAL_COMM_CALL_BUILDER_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::internal {

class CallBuilder {
 public:
  CallBuilder(int rank, int world_size)
      : rank_(rank), world_size_(world_size) {}

  absl::StatusOr<Call> AllReduce(const ConstBuffer& input, const Buffer& output,
                                 ReduceOp op, const CallOptions& options) const;
  absl::StatusOr<Call> ReduceScatter(const ConstBuffer& input,
                                     const Buffer& output, ReduceOp op,
                                     const CallOptions& options) const;
  absl::StatusOr<Call> AllGather(const ConstBuffer& input, const Buffer& output,
                                 const CallOptions& options) const;
  absl::StatusOr<Call> AllGatherV(const ConstBuffer& input,
                                  const Buffer& output,
                                  absl::Span<const std::int64_t> counts,
                                  const CallOptions& options) const;
  absl::StatusOr<Call> Reduce(const ConstBuffer& input, const Buffer& output,
                              ReduceOp op, int root,
                              const CallOptions& options) const;
  absl::StatusOr<Call> Gather(const ConstBuffer& input, const Buffer& output,
                              int root, const CallOptions& options) const;
  absl::StatusOr<Call> Scatter(const ConstBuffer& input, const Buffer& output,
                               int root, const CallOptions& options) const;
  absl::StatusOr<Call> AllToAll(const ConstBuffer& input, const Buffer& output,
                                const CallOptions& options) const;
  absl::StatusOr<Call> AllToAllV(const ConstBuffer& input,
                                 absl::Span<const std::int64_t> send_counts,
                                 const Buffer& output,
                                 absl::Span<const std::int64_t> recv_counts,
                                 const CallOptions& options) const;
  // The all-reduce of all elements of `buffers`, one buffer after the other.
  // Its memory is not set: the caller packs the buffers into some of
  // signature.count elements, and unpacks them afterwards. One buffer is an
  // AllReduce in place.
  absl::StatusOr<Call> AllReduceCoalesced(absl::Span<const Buffer> buffers,
                                          ReduceOp op,
                                          const CallOptions& options) const;
  absl::StatusOr<Call> Broadcast(const Buffer& buffer, int root,
                                 const CallOptions& options) const;
  absl::StatusOr<Call> Barrier(const CallOptions& options) const;
  absl::StatusOr<Call> Send(const ConstBuffer& buffer, int to, int tag,
                            const CallOptions& options) const;
  absl::StatusOr<Call> Recv(const Buffer& buffer, int from, int tag,
                            const CallOptions& options) const;
  // The Send, then the Recv. When both are with this rank (`peer`), the caller
  // copies the memory instead of making the calls.
  absl::StatusOr<std::array<Call, 2>> SendRecv(
      const ConstBuffer& send, int to, const Buffer& recv, int from, int tag,
      const CallOptions& options) const;

 private:
  int rank_;
  int world_size_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_CALL_BUILDER_H_
