// SPDX-License-Identifier: Apache-2.0
//
// What one rank asks of the others, with the types erased: the value that the
// public interface makes of a method's arguments, that schedules are built
// from, that message headers carry, and that error messages print.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_CALL_H_
#define SHOAL_COMM_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/user_reduction.h"
#include "shoal/comm/wire_format.h"

namespace shoal {

// The numeric values travel in message headers and never change.
enum class CallKind : std::uint8_t {
  kAllReduce = 1,
  kReduceScatter = 2,
  kAllGather = 3,
  kBroadcast = 4,
  kBarrier = 5,
  kSend = 6,
  kRecv = 7,
  kReduce = 8,
  kGather = 9,
  kScatter = 10,
  kAllToAll = 11,
  kAllGatherV = 12,
  kAllToAllV = 13,
};

inline constexpr CallKind kCollectiveKinds[] = {
    CallKind::kAllReduce,  CallKind::kReduceScatter, CallKind::kAllGather,
    CallKind::kBroadcast,  CallKind::kBarrier,       CallKind::kReduce,
    CallKind::kGather,     CallKind::kScatter,       CallKind::kAllToAll,
    CallKind::kAllGatherV, CallKind::kAllToAllV};

bool IsValidCallKind(CallKind kind);

// Any valid kind but Send and Recv.
bool IsCollective(CallKind kind);

// Broadcast, Reduce, Gather and Scatter.
bool HasRoot(CallKind kind);

// AllReduce, ReduceScatter and Reduce.
bool HasReduction(CallKind kind);

// "AllReduce", "ReduceScatter", ...: the names of the public methods.
absl::string_view CallKindName(CallKind kind);

// The part of a call on which all ranks of a collective have to agree. Fields
// that a kind does not use keep their defaults, so that equality is agreement.
struct CallSignature {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kAuto;
  // Elements: of the whole vector for AllReduce, Reduce, Broadcast, AllGatherV,
  // Send and Recv; of one rank's part for ReduceScatter, AllGather, Gather and
  // Scatter, and of what one rank sends another for AllToAll. 0 for AllToAllV,
  // where every rank's is its own.
  std::int64_t count = 0;
  // Of the kinds that have one; 0 otherwise.
  std::int32_t root = 0;
  // `DigestOf` the parts of an AllGatherV, or of the buffers of an AllReduce of
  // several; 0 otherwise.
  std::uint64_t parts_digest = 0;
  // Of reductions.
  WireFormat wire = WireFormat::kAsData;

  friend bool operator==(const CallSignature& a, const CallSignature& b) {
    return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op &&
           a.algorithm == b.algorithm && a.count == b.count &&
           a.root == b.root && a.parts_digest == b.parts_digest &&
           a.wire == b.wire;
  }
  friend bool operator!=(const CallSignature& a, const CallSignature& b) {
    return !(a == b);
  }

  // For people: "AllReduce(f32 x 100, sum, ring)", "Broadcast(u8 x 3, root 1,
  // binomial-tree)", "Barrier(dissemination)", "AllReduce(f32 x 100, sum, ring,
  // wire bf16)". With `counts` (see Call) also "AllGatherV(f32 x 9 = 2 + 0 + 7,
  // ring)"; without, its digest.
  std::string ToString(absl::Span<const std::int64_t> counts = {}) const;
};

// A number that tells lists of counts apart: the same on every machine, and
// never 0.
std::uint64_t DigestOf(absl::Span<const std::int64_t> counts);

// A signature with this rank's buffers. `input` and `output` are the caller's
// memory, valid until the call completes; they are equal, or disjoint, or (in
// place, see communicator.h) one is this rank's part of the other.
struct Call {
  CallSignature signature;
  const void* input = nullptr;
  void* output = nullptr;
  // With ReduceOp::kUser only.
  const UserReduction* user_reduction = nullptr;
  // Elements. AllGatherV: every rank's part. AllToAllV: what goes to each rank,
  // then what comes from each. AllReduce of several buffers: of each buffer.
  std::vector<std::int64_t> counts = {};
  // Send and Recv only.
  std::int32_t peer = -1;
  std::int32_t tag = 0;

  // As the signature's; for messages also with the other rank and the tag:
  // "Send(f32 x 10 to rank 3, tag 5)", "Recv(u8 x 1 from rank 0, tag 0)".
  std::string ToString() const;
};

// The bytes of data that `call` is about on rank `rank`: those of the larger
// one of the two buffers that it looks at there.
std::int64_t DataBytes(const Call& call, int rank, int world_size);

}  // namespace shoal

#endif  // SHOAL_COMM_CALL_H_
