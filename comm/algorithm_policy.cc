// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/algorithm_policy.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"

namespace shoal {
namespace {

// The first one is for large vectors.
constexpr Algorithm kForAllReduce[] = {Algorithm::kRing,
                                       Algorithm::kRecursiveDoubling};
constexpr Algorithm kForParts[] = {Algorithm::kRing};
constexpr Algorithm kForBroadcast[] = {Algorithm::kBinomialTree};
constexpr Algorithm kForBarrier[] = {Algorithm::kDissemination};

// Compared by division: a count may be too large for its bytes to be counted.
bool IsSmall(const CallSignature& signature, int world_size,
             const AlgorithmPolicy& policy) {
  const int index = std::min(world_size, AlgorithmPolicy::kWorlds + 1) - 2;
  const std::int64_t max_bytes = policy.recursive_doubling_max_bytes[index];
  if (max_bytes < 0) return false;
  return signature.count <=
         max_bytes / static_cast<std::int64_t>(DTypeSize(signature.dtype));
}

}  // namespace

absl::Span<const Algorithm> AlgorithmsOf(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
      return kForAllReduce;
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
      return kForParts;
    case CallKind::kBroadcast:
      return kForBroadcast;
    case CallKind::kBarrier:
      return kForBarrier;
    case CallKind::kSend:
    case CallKind::kRecv:
      return {};
  }
  return {};
}

absl::StatusOr<Algorithm> ChooseAlgorithm(const CallSignature& signature,
                                          int world_size,
                                          const AlgorithmPolicy& policy) {
  const absl::Span<const Algorithm> choice = AlgorithmsOf(signature.kind);
  if (choice.empty() || !IsValidDType(signature.dtype) || signature.count < 0 ||
      world_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("no algorithm for ", signature.ToString(),
                     " in a world of ", world_size, " ranks"));
  }
  if (signature.algorithm != Algorithm::kAuto) {
    if (std::find(choice.begin(), choice.end(), signature.algorithm) !=
        choice.end()) {
      return signature.algorithm;
    }
    std::string names = "auto";
    for (const Algorithm each : choice) {
      absl::StrAppend(&names, ", ", AlgorithmName(each));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(signature.ToString(), ": ", CallKindName(signature.kind),
                     " has no algorithm \"", AlgorithmName(signature.algorithm),
                     "\"; choose one of ", names));
  }
  if (signature.kind == CallKind::kAllReduce && world_size > 1 &&
      IsSmall(signature, world_size, policy)) {
    return Algorithm::kRecursiveDoubling;
  }
  return choice[0];
}

}  // namespace shoal
