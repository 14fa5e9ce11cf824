// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal {

namespace {

// "2 + 0 + 7"; long lists are cut.
std::string Terms(absl::Span<const std::int64_t> counts) {
  constexpr std::size_t kMost = 16;
  std::string text = absl::StrJoin(counts.subspan(0, kMost), " + ");
  if (counts.size() > kMost) {
    absl::StrAppend(&text, " + ... (", counts.size(), " parts)");
  }
  return text;
}

}  // namespace

bool IsValidCallKind(CallKind kind) {
  return IsCollective(kind) || kind == CallKind::kSend ||
         kind == CallKind::kRecv;
}

bool IsCollective(CallKind kind) {
  return std::find(std::begin(kCollectiveKinds), std::end(kCollectiveKinds),
                   kind) != std::end(kCollectiveKinds);
}

bool HasRoot(CallKind kind) {
  return kind == CallKind::kBroadcast || kind == CallKind::kReduce ||
         kind == CallKind::kGather || kind == CallKind::kScatter;
}

bool HasReduction(CallKind kind) {
  return kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter ||
         kind == CallKind::kReduce;
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
    case CallKind::kReduce:
      return "Reduce";
    case CallKind::kGather:
      return "Gather";
    case CallKind::kScatter:
      return "Scatter";
    case CallKind::kAllToAll:
      return "AllToAll";
    case CallKind::kAllGatherV:
      return "AllGatherV";
    case CallKind::kAllToAllV:
      return "AllToAllV";
  }
  return "unknown call";
}

std::uint64_t DigestOf(absl::Span<const std::int64_t> counts) {
  // The finalizer of MurmurHash3 (A. Appleby), over a running sum.
  std::uint64_t digest = counts.size() + 1;
  for (const std::int64_t count : counts) {
    digest = (digest + static_cast<std::uint64_t>(count)) * 0x9E3779B97F4A7C15;
    digest ^= digest >> 33;
    digest *= 0xFF51AFD7ED558CCD;
    digest ^= digest >> 33;
    digest *= 0xC4CEB9FE1A85EC53;
    digest ^= digest >> 33;
  }
  return digest == 0 ? 1 : digest;
}

std::string CallSignature::ToString(
    absl::Span<const std::int64_t> counts) const {
  const absl::string_view name = CallKindName(kind);
  if (!IsValidCallKind(kind)) {
    return absl::StrCat(name, "(", static_cast<int>(kind), ")");
  }
  std::string text = absl::StrCat(name, "(");
  if (kind == CallKind::kAllToAllV) {
    absl::StrAppend(&text, DTypeName(dtype));
    if (!counts.empty()) {
      const std::size_t half = counts.size() / 2;
      absl::StrAppend(&text, ", sends ", Terms(counts.subspan(0, half)),
                      ", receives ", Terms(counts.subspan(half)));
    }
  } else if (kind != CallKind::kBarrier) {
    absl::StrAppend(&text, DTypeName(dtype), " x ", count);
    if (!counts.empty()) {
      absl::StrAppend(&text, " = ", Terms(counts));
    } else if (parts_digest != 0) {
      absl::StrAppend(&text, " in parts ", absl::Hex(parts_digest));
    }
  }
  if (HasReduction(kind)) absl::StrAppend(&text, ", ", ReduceOpName(op));
  if (HasRoot(kind)) absl::StrAppend(&text, ", root ", root);
  if (IsCollective(kind)) {
    absl::StrAppend(&text, kind == CallKind::kBarrier ? "" : ", ",
                    AlgorithmName(algorithm));
  }
  if (wire != WireFormat::kAsData) {
    absl::StrAppend(&text, ", wire ", WireFormatName(wire));
  }
  return absl::StrCat(text, ")");
}

std::string Call::ToString() const {
  if (signature.kind != CallKind::kSend && signature.kind != CallKind::kRecv) {
    return signature.ToString(counts);
  }
  return absl::StrCat(CallKindName(signature.kind), "(",
                      DTypeName(signature.dtype), " x ", signature.count,
                      signature.kind == CallKind::kSend ? " to" : " from",
                      " rank ", peer, ", tag ", tag, ")");
}

std::int64_t DataBytes(const Call& call, int rank, int world_size) {
  const CallSignature& signature = call.signature;
  std::int64_t count = signature.count;
  switch (signature.kind) {
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
    case CallKind::kAllToAll:
      count *= world_size;
      break;
    case CallKind::kGather:
    case CallKind::kScatter:
      if (rank == signature.root) count *= world_size;
      break;
    case CallKind::kAllToAllV: {
      const auto received = call.counts.begin() + world_size;
      count = std::max(
          std::accumulate(call.counts.begin(), received, std::int64_t{0}),
          std::accumulate(received, call.counts.end(), std::int64_t{0}));
      break;
    }
    default:
      break;
  }
  return count * static_cast<std::int64_t>(DTypeSize(signature.dtype));
}

}  // namespace shoal
