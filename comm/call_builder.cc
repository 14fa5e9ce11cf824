// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/call_builder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal::internal {
namespace {

std::uintptr_t Address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

// The buffers have been checked, so that their sizes do not overflow.
std::size_t Bytes(const ConstBuffer& buffer) {
  return static_cast<std::size_t>(buffer.count) * DTypeSize(buffer.dtype);
}

bool Overlap(const ConstBuffer& a, const ConstBuffer& b) {
  if (a.count == 0 || b.count == 0) return false;
  return Address(a.data) < Address(b.data) + Bytes(b) &&
         Address(b.data) < Address(a.data) + Bytes(a);
}

absl::Status CheckBuffer(absl::string_view method, absl::string_view name,
                         const ConstBuffer& buffer) {
  if (!IsValidDType(buffer.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        method, ": ", name, " has the unknown type ", DTypeName(buffer.dtype)));
  }
  if (buffer.count < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        method, ": ", name, " has a negative count (", buffer.count, ")"));
  }
  const std::int64_t limit = std::numeric_limits<std::int64_t>::max() /
                             static_cast<std::int64_t>(DTypeSize(buffer.dtype));
  if (buffer.count > limit) {
    return absl::InvalidArgumentError(absl::StrCat(
        method, ": ", name, " has ", buffer.count, " elements of ",
        DTypeName(buffer.dtype), ", more than an address space holds"));
  }
  if (buffer.count > 0 && buffer.data == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        method, ": ", name, " is null but has ", buffer.count, " elements"));
  }
  return absl::OkStatus();
}

absl::Status CheckSameType(absl::string_view method, const ConstBuffer& input,
                           const ConstBuffer& output) {
  if (input.dtype == output.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      method, ": input is ", DTypeName(input.dtype), " but output is ",
      DTypeName(output.dtype), "; they must have the same type"));
}

// `whole` has to be `world_size` parts of `part`.
absl::Status CheckParts(absl::string_view method, absl::string_view whole_name,
                        const ConstBuffer& whole, absl::string_view part_name,
                        const ConstBuffer& part, int world_size) {
  if (part.count <= std::numeric_limits<std::int64_t>::max() / world_size &&
      whole.count == part.count * world_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      method, ": ", whole_name, " has ", whole.count, " elements but ",
      part_name, " has ", part.count, " in a world of ", world_size, "; ",
      whole_name, " must have world_size times as many"));
}

// Where `part` lies in `whole` when the call is in place: as this rank's part,
// after so many elements.
absl::Status CheckPartPlace(absl::string_view method,
                            absl::string_view whole_name,
                            const ConstBuffer& whole,
                            absl::string_view part_name,
                            const ConstBuffer& part, int rank,
                            std::int64_t elements_before) {
  if (!Overlap(whole, part)) return absl::OkStatus();
  if (Address(part.data) ==
      Address(whole.data) +
          static_cast<std::size_t>(elements_before) * DTypeSize(part.dtype)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(method, ": ", part_name, " and ", whole_name,
                   " overlap; they must be disjoint, or (in place) ", part_name,
                   " must be part ", rank, ", this rank's, of ", whole_name));
}

absl::Status CheckSameMemoryOrDisjoint(absl::string_view method,
                                       const ConstBuffer& input,
                                       const ConstBuffer& output) {
  if (input.data == output.data || !Overlap(input, output)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      method,
      ": input and output overlap in part; they must be the same memory (in "
      "place) or disjoint"));
}

absl::Status CheckSameCount(absl::string_view method, const ConstBuffer& input,
                            const ConstBuffer& output) {
  if (input.count == output.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      method, ": input has ", input.count, " elements but output has ",
      output.count, "; they must have equally many"));
}

// `counts` has to be one for each rank, and their sum that of the buffer.
absl::Status CheckCounts(absl::string_view method, absl::string_view name,
                         absl::Span<const std::int64_t> counts,
                         absl::string_view buffer_name,
                         const ConstBuffer& buffer, int world_size) {
  if (counts.size() != static_cast<std::size_t>(world_size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        method, ": ", name, " has ", counts.size(),
        " elements; it must have one for each of the ", world_size, " ranks"));
  }
  for (const std::int64_t count : counts) {
    if (count >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(method, ": ", name, " has the negative count ", count));
  }
  std::int64_t left = buffer.count;
  for (const std::int64_t count : counts) {
    if (count > left) {
      left = -1;
      break;
    }
    left -= count;
  }
  if (left == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(method, ": ", name, " (", absl::StrJoin(counts, " + "),
                   ") is ", left < 0 ? "more" : "less", " than ", buffer_name,
                   " has elements (", buffer.count, ")"));
}

absl::Status CheckOptions(absl::string_view method, const CallOptions& options,
                          bool has_wire_formats = false) {
  if (options.timeout.has_value() && *options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat(method, ": the time-out must be more than zero, not ",
                     absl::FormatDuration(*options.timeout)));
  }
  if (!IsValidAlgorithm(options.algorithm)) {
    return absl::InvalidArgumentError(absl::StrCat(
        method, ": unknown algorithm ", AlgorithmName(options.algorithm)));
  }
  if (!IsValidWireFormat(options.wire)) {
    return absl::InvalidArgumentError(absl::StrCat(
        method, ": unknown wire format ", WireFormatName(options.wire)));
  }
  if (options.wire != WireFormat::kAsData && !has_wire_formats) {
    return absl::InvalidArgumentError(
        absl::StrCat(method, ": has no choice of wire formats, but ",
                     WireFormatName(options.wire), " is asked for"));
  }
  return absl::OkStatus();
}

absl::Status CheckReduction(absl::string_view method, ReduceOp op, DType dtype,
                            const CallOptions& options) {
  if (!IsValidReduceOp(op)) {
    return absl::InvalidArgumentError(
        absl::StrCat(method, ": unknown reduction ", ReduceOpName(op)));
  }
  const bool has_function =
      options.user_reduction != nullptr && *options.user_reduction != nullptr;
  if (op == ReduceOp::kUser && !has_function) {
    return absl::InvalidArgumentError(
        absl::StrCat(method,
                     ": the reduction is the user's, but "
                     "CallOptions::user_reduction has no function"));
  }
  if (op != ReduceOp::kUser && options.user_reduction != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(method,
                     ": CallOptions::user_reduction is set, but the "
                     "reduction is ",
                     ReduceOpName(op),
                     "; ask for "
                     "ReduceOp::kUser"));
  }
  if (!ReduceOpTakes(op, dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        method, ": ", ReduceOpName(op),
        " is a reduction of integers, but the buffers are ", DTypeName(dtype)));
  }
  SHOAL_RETURN_IF_ERROR(
      CheckOptions(method, options, /*has_wire_formats=*/true));
  if (!WireFormatTakes(options.wire, dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat(method, ": the wire format ", WireFormatName(options.wire),
                     " is not one of ", DTypeName(dtype),
                     "; f32 takes f16 and bf16, bf16 and q8_0 take f32"));
  }
  if (op == ReduceOp::kUser && options.wire == WireFormat::kF32) {
    return absl::InvalidArgumentError(absl::StrCat(
        method,
        ": the wire format f32 would give the user's reduction f32 "
        "where it expects ",
        DTypeName(dtype)));
  }
  return absl::OkStatus();
}

absl::Status CheckRank(absl::string_view method, absl::string_view name,
                       int rank, int world_size) {
  if (rank >= 0 && rank < world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(method, ": ", name, " ", rank,
                                                 " is outside the world of ",
                                                 world_size, " ranks"));
}

absl::Status CheckMessage(absl::string_view method,
                          absl::string_view buffer_name,
                          const ConstBuffer& buffer,
                          absl::string_view peer_name, int peer, int world_size,
                          int tag, const CallOptions& options) {
  SHOAL_RETURN_IF_ERROR(CheckBuffer(method, buffer_name, buffer));
  SHOAL_RETURN_IF_ERROR(CheckOptions(method, options));
  SHOAL_RETURN_IF_ERROR(CheckRank(method, peer_name, peer, world_size));
  if (options.algorithm != Algorithm::kAuto) {
    return absl::InvalidArgumentError(
        absl::StrCat(method, ": has no choice of algorithms, but ",
                     AlgorithmName(options.algorithm), " is asked for"));
  }
  if (tag < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(method, ": the tag must be 0 or more, not ", tag));
  }
  return absl::OkStatus();
}

absl::Status RefuseSelf(absl::string_view method, int peer, int rank) {
  if (peer != rank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      method, ": rank ", rank,
      " cannot exchange a message with itself; copy the memory, or use "
      "SendRecv with both ends on this rank"));
}

Call MessageCall(CallKind kind, const ConstBuffer& buffer, int peer, int tag) {
  Call call;
  call.signature.kind = kind;
  call.signature.dtype = buffer.dtype;
  call.signature.count = buffer.count;
  call.peer = peer;
  call.tag = tag;
  return call;
}

Call CollectiveCall(CallKind kind, const ConstBuffer& part,
                    const CallOptions& options) {
  Call call;
  call.signature.kind = kind;
  call.signature.dtype = part.dtype;
  call.signature.count = part.count;
  call.signature.algorithm = options.algorithm;
  return call;
}

}  // namespace

absl::StatusOr<Call> CallBuilder::AllReduce(const ConstBuffer& input,
                                            const Buffer& output, ReduceOp op,
                                            const CallOptions& options) const {
  constexpr absl::string_view kMethod = "AllReduce";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckReduction(kMethod, op, input.dtype, options));
  SHOAL_RETURN_IF_ERROR(CheckSameCount(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckSameMemoryOrDisjoint(kMethod, input, output));
  Call call = CollectiveCall(CallKind::kAllReduce, input, options);
  call.signature.op = op;
  call.signature.wire = options.wire;
  call.user_reduction = options.user_reduction;
  call.input = input.data;
  call.output = output.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::ReduceScatter(
    const ConstBuffer& input, const Buffer& output, ReduceOp op,
    const CallOptions& options) const {
  constexpr absl::string_view kMethod = "ReduceScatter";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckReduction(kMethod, op, input.dtype, options));
  SHOAL_RETURN_IF_ERROR(
      CheckParts(kMethod, "input", input, "output", output, world_size_));
  SHOAL_RETURN_IF_ERROR(CheckPartPlace(kMethod, "input", input, "output",
                                       output, rank_, rank_ * output.count));
  Call call = CollectiveCall(CallKind::kReduceScatter, output, options);
  call.signature.op = op;
  call.signature.wire = options.wire;
  call.user_reduction = options.user_reduction;
  call.input = input.data;
  call.output = output.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::AllGather(const ConstBuffer& input,
                                            const Buffer& output,
                                            const CallOptions& options) const {
  constexpr absl::string_view kMethod = "AllGather";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckOptions(kMethod, options));
  SHOAL_RETURN_IF_ERROR(
      CheckParts(kMethod, "output", output, "input", input, world_size_));
  SHOAL_RETURN_IF_ERROR(CheckPartPlace(kMethod, "output", output, "input",
                                       input, rank_, rank_ * input.count));
  Call call = CollectiveCall(CallKind::kAllGather, input, options);
  call.input = input.data;
  call.output = output.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::AllGatherV(
    const ConstBuffer& input, const Buffer& output,
    absl::Span<const std::int64_t> counts, const CallOptions& options) const {
  constexpr absl::string_view kMethod = "AllGatherV";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckOptions(kMethod, options));
  SHOAL_RETURN_IF_ERROR(
      CheckCounts(kMethod, "counts", counts, "output", output, world_size_));
  if (counts[rank_] != input.count) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMethod, ": input has ", input.count, " elements but counts[", rank_,
        "], this rank's, is ", counts[rank_]));
  }
  SHOAL_RETURN_IF_ERROR(
      CheckPartPlace(kMethod, "output", output, "input", input, rank_,
                     std::accumulate(counts.begin(), counts.begin() + rank_,
                                     std::int64_t{0})));
  Call call = CollectiveCall(CallKind::kAllGatherV, output, options);
  call.signature.parts_digest = DigestOf(counts);
  call.counts.assign(counts.begin(), counts.end());
  call.input = input.data;
  call.output = output.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::Reduce(const ConstBuffer& input,
                                         const Buffer& output, ReduceOp op,
                                         int root,
                                         const CallOptions& options) const {
  constexpr absl::string_view kMethod = "Reduce";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckReduction(kMethod, op, input.dtype, options));
  SHOAL_RETURN_IF_ERROR(CheckRank(kMethod, "root", root, world_size_));
  Call call = CollectiveCall(CallKind::kReduce, input, options);
  call.signature.op = op;
  call.signature.root = root;
  call.signature.wire = options.wire;
  call.user_reduction = options.user_reduction;
  call.input = input.data;
  if (rank_ != root) return call;
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckSameCount(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckSameMemoryOrDisjoint(kMethod, input, output));
  call.output = output.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::Gather(const ConstBuffer& input,
                                         const Buffer& output, int root,
                                         const CallOptions& options) const {
  constexpr absl::string_view kMethod = "Gather";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckRank(kMethod, "root", root, world_size_));
  SHOAL_RETURN_IF_ERROR(CheckOptions(kMethod, options));
  Call call = CollectiveCall(CallKind::kGather, input, options);
  call.signature.root = root;
  call.input = input.data;
  if (rank_ != root) return call;
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(
      CheckParts(kMethod, "output", output, "input", input, world_size_));
  SHOAL_RETURN_IF_ERROR(CheckPartPlace(kMethod, "output", output, "input",
                                       input, rank_, rank_ * input.count));
  call.output = output.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::Scatter(const ConstBuffer& input,
                                          const Buffer& output, int root,
                                          const CallOptions& options) const {
  constexpr absl::string_view kMethod = "Scatter";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckRank(kMethod, "root", root, world_size_));
  SHOAL_RETURN_IF_ERROR(CheckOptions(kMethod, options));
  Call call = CollectiveCall(CallKind::kScatter, output, options);
  call.signature.root = root;
  call.output = output.data;
  if (rank_ != root) return call;
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(
      CheckParts(kMethod, "input", input, "output", output, world_size_));
  SHOAL_RETURN_IF_ERROR(CheckPartPlace(kMethod, "input", input, "output",
                                       output, rank_, rank_ * output.count));
  call.input = input.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::AllToAll(const ConstBuffer& input,
                                           const Buffer& output,
                                           const CallOptions& options) const {
  constexpr absl::string_view kMethod = "AllToAll";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckOptions(kMethod, options));
  SHOAL_RETURN_IF_ERROR(CheckSameCount(kMethod, input, output));
  if (input.count % world_size_ != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMethod, ": input has ", input.count,
        " elements, which cannot be cut "
        "into ",
        world_size_, " equal parts; AllToAllV takes unequal ones"));
  }
  SHOAL_RETURN_IF_ERROR(CheckSameMemoryOrDisjoint(kMethod, input, output));
  Call call = CollectiveCall(CallKind::kAllToAll, input, options);
  call.signature.count = input.count / world_size_;
  call.input = input.data;
  call.output = output.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::AllToAllV(
    const ConstBuffer& input, absl::Span<const std::int64_t> send_counts,
    const Buffer& output, absl::Span<const std::int64_t> recv_counts,
    const CallOptions& options) const {
  constexpr absl::string_view kMethod = "AllToAllV";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "input", input));
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "output", output));
  SHOAL_RETURN_IF_ERROR(CheckSameType(kMethod, input, output));
  SHOAL_RETURN_IF_ERROR(CheckOptions(kMethod, options));
  SHOAL_RETURN_IF_ERROR(CheckCounts(kMethod, "send_counts", send_counts,
                                    "input", input, world_size_));
  SHOAL_RETURN_IF_ERROR(CheckCounts(kMethod, "recv_counts", recv_counts,
                                    "output", output, world_size_));
  if (send_counts[rank_] != recv_counts[rank_]) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMethod, ": rank ", rank_, " sends itself ", send_counts[rank_],
        " elements but receives ", recv_counts[rank_]));
  }
  if (Overlap(input, output)) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMethod, ": input and output overlap; they must be disjoint"));
  }
  Call call = CollectiveCall(CallKind::kAllToAllV, input, options);
  call.signature.count = 0;
  call.counts.assign(send_counts.begin(), send_counts.end());
  call.counts.insert(call.counts.end(), recv_counts.begin(), recv_counts.end());
  call.input = input.data;
  call.output = output.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::AllReduceCoalesced(
    absl::Span<const Buffer> buffers, ReduceOp op,
    const CallOptions& options) const {
  constexpr absl::string_view kMethod = "AllReduceCoalesced";
  if (buffers.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kMethod, ": at least one buffer is needed"));
  }
  if (buffers.size() == 1)
    return AllReduce(buffers[0], buffers[0], op, options);
  SHOAL_RETURN_IF_ERROR(CheckReduction(kMethod, op, buffers[0].dtype, options));
  Buffer whole = {nullptr, 0, buffers[0].dtype};
  std::vector<std::int64_t> counts;
  for (const Buffer& buffer : buffers) {
    SHOAL_RETURN_IF_ERROR(
        CheckBuffer(kMethod, absl::StrCat("buffer ", counts.size()), buffer));
    if (buffer.dtype != whole.dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          kMethod, ": buffer 0 is ", DTypeName(whole.dtype), " but buffer ",
          counts.size(), " is ", DTypeName(buffer.dtype),
          "; they must have the same type"));
    }
    // Disjoint memory, as is checked below, cannot overflow.
    counts.push_back(buffer.count);
  }
  std::vector<Buffer> sorted(buffers.begin(), buffers.end());
  std::sort(sorted.begin(), sorted.end(), [](const Buffer& a, const Buffer& b) {
    return Address(a.data) < Address(b.data);
  });
  const Buffer* last = nullptr;
  for (const Buffer& buffer : sorted) {
    if (buffer.count == 0) continue;
    if (last != nullptr && Overlap(*last, buffer)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kMethod, ": two of the buffers overlap"));
    }
    last = &buffer;
    whole.count += buffer.count;
  }
  Call call = CollectiveCall(CallKind::kAllReduce, whole, options);
  call.signature.op = op;
  call.signature.wire = options.wire;
  call.user_reduction = options.user_reduction;
  call.signature.parts_digest = DigestOf(counts);
  call.counts = std::move(counts);
  return call;
}

absl::StatusOr<Call> CallBuilder::Broadcast(const Buffer& buffer, int root,
                                            const CallOptions& options) const {
  constexpr absl::string_view kMethod = "Broadcast";
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kMethod, "buffer", buffer));
  SHOAL_RETURN_IF_ERROR(CheckRank(kMethod, "root", root, world_size_));
  SHOAL_RETURN_IF_ERROR(CheckOptions(kMethod, options));
  Call call = CollectiveCall(CallKind::kBroadcast, buffer, options);
  call.signature.root = root;
  call.input = buffer.data;
  call.output = buffer.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::Barrier(const CallOptions& options) const {
  SHOAL_RETURN_IF_ERROR(CheckOptions("Barrier", options));
  return CollectiveCall(CallKind::kBarrier, {}, options);
}

absl::StatusOr<Call> CallBuilder::Send(const ConstBuffer& buffer, int to,
                                       int tag,
                                       const CallOptions& options) const {
  SHOAL_RETURN_IF_ERROR(CheckMessage("Send", "buffer", buffer, "receiver", to,
                                     world_size_, tag, options));
  SHOAL_RETURN_IF_ERROR(RefuseSelf("Send", to, rank_));
  Call call = MessageCall(CallKind::kSend, buffer, to, tag);
  call.input = buffer.data;
  return call;
}

absl::StatusOr<Call> CallBuilder::Recv(const Buffer& buffer, int from, int tag,
                                       const CallOptions& options) const {
  SHOAL_RETURN_IF_ERROR(CheckMessage("Recv", "buffer", buffer, "sender", from,
                                     world_size_, tag, options));
  SHOAL_RETURN_IF_ERROR(RefuseSelf("Recv", from, rank_));
  Call call = MessageCall(CallKind::kRecv, buffer, from, tag);
  call.output = buffer.data;
  return call;
}

absl::StatusOr<std::array<Call, 2>> CallBuilder::SendRecv(
    const ConstBuffer& send, int to, const Buffer& recv, int from, int tag,
    const CallOptions& options) const {
  constexpr absl::string_view kMethod = "SendRecv";
  SHOAL_RETURN_IF_ERROR(CheckMessage(kMethod, "send", send, "receiver", to,
                                     world_size_, tag, options));
  SHOAL_RETURN_IF_ERROR(CheckMessage(kMethod, "recv", recv, "sender", from,
                                     world_size_, tag, options));
  if (Overlap(send, recv)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kMethod, ": the two buffers overlap"));
  }
  if (to == rank_ && from == rank_) {
    if (send.dtype != recv.dtype || send.count != recv.count) {
      return absl::InvalidArgumentError(absl::StrCat(
          kMethod, ": rank ", rank_, " sends itself ", DTypeName(send.dtype),
          " x ", send.count, " but receives ", DTypeName(recv.dtype), " x ",
          recv.count));
    }
  } else {
    SHOAL_RETURN_IF_ERROR(RefuseSelf(kMethod, to, rank_));
    SHOAL_RETURN_IF_ERROR(RefuseSelf(kMethod, from, rank_));
  }
  std::array<Call, 2> calls = {MessageCall(CallKind::kSend, send, to, tag),
                               MessageCall(CallKind::kRecv, recv, from, tag)};
  calls[0].input = send.data;
  calls[1].output = recv.data;
  return calls;
}

}  // namespace shoal::internal
