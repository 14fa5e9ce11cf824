// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/call.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

namespace shoal {

bool IsValidCallKind(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
    case CallKind::kBroadcast:
    case CallKind::kBarrier:
    case CallKind::kSend:
    case CallKind::kRecv:
      return true;
  }
  return false;
}

absl::string_view CallKindName(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
      return "AllReduce";
    case CallKind::kReduceScatter:
      return "ReduceScatter";
    case CallKind::kAllGather:
      return "AllGather";
    case CallKind::kBroadcast:
      return "Broadcast";
    case CallKind::kBarrier:
      return "Barrier";
    case CallKind::kSend:
      return "Send";
    case CallKind::kRecv:
      return "Recv";
  }
  return "unknown call";
}

std::string CallSignature::ToString() const {
  const absl::string_view name = CallKindName(kind);
  const std::string elements = absl::StrCat(DTypeName(dtype), " x ", count);
  switch (kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter:
      return absl::StrCat(name, "(", elements, ", ", ReduceOpName(op), ", ",
                          AlgorithmName(algorithm), ")");
    case CallKind::kAllGather:
      return absl::StrCat(name, "(", elements, ", ", AlgorithmName(algorithm),
                          ")");
    case CallKind::kBroadcast:
      return absl::StrCat(name, "(", elements, ", root ", root, ", ",
                          AlgorithmName(algorithm), ")");
    case CallKind::kBarrier:
      return absl::StrCat(name, "(", AlgorithmName(algorithm), ")");
    case CallKind::kSend:
    case CallKind::kRecv:
      return absl::StrCat(name, "(", elements, ")");
  }
  return absl::StrCat(name, "(", static_cast<int>(kind), ")");
}

std::string Call::ToString() const {
  if (signature.kind != CallKind::kSend && signature.kind != CallKind::kRecv) {
    return signature.ToString();
  }
  return absl::StrCat(CallKindName(signature.kind), "(",
                      DTypeName(signature.dtype), " x ", signature.count,
                      signature.kind == CallKind::kSend ? " to" : " from",
                      " rank ", peer, ", tag ", tag, ")");
}

}  // namespace shoal
