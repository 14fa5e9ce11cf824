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

#include "absl/strings/string_view.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/user_reduction.h"

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
};

bool IsValidCallKind(CallKind kind);

// "AllReduce", "ReduceScatter", ...: the names of the public methods.
absl::string_view CallKindName(CallKind kind);

// The part of a call on which all ranks of a collective have to agree. Fields
// that a kind does not use keep their defaults, so that equality is agreement.
struct CallSignature {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kAuto;
  // Elements: of the whole vector for AllReduce, Broadcast, Send and Recv; of
  // one rank's part for ReduceScatter (its output) and AllGather (its input).
  std::int64_t count = 0;
  // Broadcast only; 0 otherwise.
  std::int32_t root = 0;

  friend bool operator==(const CallSignature& a, const CallSignature& b) {
    return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op &&
           a.algorithm == b.algorithm && a.count == b.count && a.root == b.root;
  }
  friend bool operator!=(const CallSignature& a, const CallSignature& b) {
    return !(a == b);
  }

  // For people: "AllReduce(f32 x 100, sum, ring)", "Broadcast(u8 x 3, root 1,
  // binomial-tree)", "Barrier(dissemination)".
  std::string ToString() const;
};

// A signature with this rank's buffers. `input` and `output` are the caller's
// memory, valid until the call completes; they are equal, or disjoint, or (in
// place, see communicator.h) one is this rank's part of the other.
struct Call {
  CallSignature signature;
  const void* input = nullptr;
  void* output = nullptr;
  // With ReduceOp::kUser only.
  const UserReduction* user_reduction = nullptr;
  // Send and Recv only.
  std::int32_t peer = -1;
  std::int32_t tag = 0;

  // As the signature's; for messages also with the other rank and the tag:
  // "Send(f32 x 10 to rank 3, tag 5)", "Recv(u8 x 1 from rank 0, tag 0)".
  std::string ToString() const;
};

}  // namespace shoal

#endif  // SHOAL_COMM_CALL_H_
