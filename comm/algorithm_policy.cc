// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/algorithm_policy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/wire_format.h"

namespace shoal {
namespace {

// The first one is for large vectors.
constexpr Algorithm kForAllReduce[] = {
    Algorithm::kRing,    Algorithm::kRecursiveDoubling, Algorithm::kDirect,
    Algorithm::kOneShot, Algorithm::kHalvingDoubling,   Algorithm::kTree};
constexpr Algorithm kForParts[] = {Algorithm::kRing, Algorithm::kDirect};
constexpr Algorithm kForBroadcast[] = {Algorithm::kBinomialTree,
                                       Algorithm::kChain, Algorithm::kLinear};
constexpr Algorithm kForReduce[] = {Algorithm::kTree, Algorithm::kChain,
                                    Algorithm::kLinear};
constexpr Algorithm kForRoot[] = {Algorithm::kLinear};
constexpr Algorithm kForAllToAll[] = {Algorithm::kPairwise};
constexpr Algorithm kForBarrier[] = {Algorithm::kDissemination};

bool Has(CallKind kind, Algorithm algorithm) {
  const absl::Span<const Algorithm> choice = AlgorithmsOf(kind);
  return std::find(choice.begin(), choice.end(), algorithm) != choice.end();
}

std::string ChoiceText(CallKind kind) {
  std::string names = "auto";
  for (const Algorithm each : AlgorithmsOf(kind)) {
    absl::StrAppend(&names, ", ", AlgorithmName(each));
  }
  return names;
}

// How many parts of signature.count elements a rule's bytes are of.
std::int64_t PartsOf(CallKind kind, int world_size) {
  switch (kind) {
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
    case CallKind::kGather:
    case CallKind::kScatter:
    case CallKind::kAllToAll:
      return world_size;
    default:
      return 1;
  }
}

// Compared by division: a count may be too large for its bytes to be counted.
bool Fits(const AlgorithmRule& rule, const CallSignature& signature,
          int world_size) {
  if (rule.crowded || rule.kind != signature.kind ||
      world_size > rule.max_world_size) {
    return false;
  }
  return signature.count <=
         rule.max_bytes /
             static_cast<std::int64_t>(DTypeSize(signature.dtype)) /
             PartsOf(signature.kind, world_size);
}

// Whether the rank that completes a part of the result passes on exactly this
// part, if any: then what it keeps can be rounded as what it sends, block by
// block. In a tree it would depend on the root which operands are rounded.
bool GoesWithLossyWire(Algorithm algorithm) {
  return algorithm != Algorithm::kHalvingDoubling &&
         algorithm != Algorithm::kTree;
}

Algorithm Choose(const CallSignature& signature, int world_size,
                 const AlgorithmPolicy& policy) {
  for (const AlgorithmRule& rule : policy.rules) {
    if (!Fits(rule, signature, world_size)) continue;
    if (IsLossy(signature.wire) && !GoesWithLossyWire(rule.algorithm)) continue;
    return rule.algorithm;
  }
  return AlgorithmsOf(signature.kind)[0];
}

// "All-Reduce" and "AllReduce" are the same.
std::string Plain(absl::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '-' && c != '_') plain.push_back(absl::ascii_tolower(c));
  }
  return plain;
}

absl::StatusOr<CallKind> ParseCollective(absl::string_view name) {
  std::string choice;
  for (const CallKind kind : kCollectiveKinds) {
    if (Plain(name) == Plain(CallKindName(kind))) return kind;
    absl::StrAppend(&choice, choice.empty() ? "" : ", ",
                    Plain(CallKindName(kind)));
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown collective \"", name,
                                                 "\"; choose one of ", choice));
}

AlgorithmRule Always(CallKind kind, Algorithm algorithm) {
  AlgorithmRule rule;
  rule.kind = kind;
  rule.algorithm = algorithm;
  return rule;
}

// Appends the rules of one item of a list: "ring" or "broadcast:chain".
absl::Status AppendRules(absl::string_view item,
                         std::vector<AlgorithmRule>* rules) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(item, absl::MaxSplits(':', 1));
  const bool for_all = item.find(':') == absl::string_view::npos;
  SHOAL_ASSIGN_OR_RETURN(const Algorithm algorithm,
                         ParseAlgorithm(for_all ? item : parts.second));
  if (for_all) {
    for (const CallKind kind : kCollectiveKinds) {
      if (Has(kind, algorithm)) rules->push_back(Always(kind, algorithm));
    }
    return absl::OkStatus();
  }
  SHOAL_ASSIGN_OR_RETURN(const CallKind kind, ParseCollective(parts.first));
  if (algorithm == Algorithm::kAuto) return absl::OkStatus();
  if (!Has(kind, algorithm)) {
    return absl::InvalidArgumentError(absl::StrCat(
        CallKindName(kind), " has no algorithm \"", AlgorithmName(algorithm),
        "\"; choose one of ", ChoiceText(kind)));
  }
  rules->push_back(Always(kind, algorithm));
  return absl::OkStatus();
}

absl::StatusOr<Algorithm> ChooseForLossyWire(const CallSignature& signature,
                                             int world_size,
                                             const AlgorithmPolicy& policy) {
  if (signature.algorithm == Algorithm::kAuto) {
    const Algorithm algorithm = Choose(signature, world_size, policy);
    if (GoesWithLossyWire(algorithm)) return algorithm;
    return signature.kind == CallKind::kReduce ? Algorithm::kChain
                                               : Algorithm::kRing;
  }
  if (Has(signature.kind, signature.algorithm) &&
      GoesWithLossyWire(signature.algorithm)) {
    return signature.algorithm;
  }
  std::string names = "auto";
  for (const Algorithm each : AlgorithmsOf(signature.kind)) {
    if (GoesWithLossyWire(each)) {
      absl::StrAppend(&names, ", ", AlgorithmName(each));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(signature.ToString(), ": with the wire format ",
                   WireFormatName(signature.wire), " choose one of ", names));
}

}  // namespace

std::vector<AlgorithmRule> DefaultAlgorithmRules() {
  constexpr std::int32_t kAnyWorld = AlgorithmRule::kAnyWorld;
  constexpr std::int64_t kAnySize = AlgorithmRule::kAnySize;
  constexpr std::int64_t kKi = 1024;
  constexpr std::int64_t kMi = 1024 * kKi;
  using Kind = CallKind;
  using A = Algorithm;
  return {
      {Kind::kAllReduce, 2, 64 * kKi, A::kRecursiveDoubling},
      {Kind::kAllReduce, 2, kAnySize, A::kRing},
      // On a crowded machine the fewest bytes through the kernel win, on a
      // network the shortest chain of messages, and then the fewest bytes.
      {Kind::kAllReduce, kAnyWorld, 64 * kKi, A::kTree, /*crowded=*/true},
      {Kind::kAllReduce, 4, 4 * kMi, A::kDirect, /*crowded=*/true},
      {Kind::kAllReduce, kAnyWorld, 4 * kMi, A::kHalvingDoubling,
       /*crowded=*/true},
      {Kind::kAllReduce, kAnyWorld, 16 * kKi, A::kRecursiveDoubling},
      {Kind::kAllReduce, kAnyWorld, kMi, A::kDirect},
      {Kind::kReduceScatter, kAnyWorld, kMi, A::kDirect},
      {Kind::kAllGather, kAnyWorld, 4 * kMi, A::kDirect},
      {Kind::kAllGatherV, kAnyWorld, 4 * kMi, A::kDirect},
      {Kind::kBroadcast, kAnyWorld, 64 * kKi, A::kLinear, /*crowded=*/true},
      {Kind::kBroadcast, kAnyWorld, 64 * kKi, A::kBinomialTree},
      {Kind::kBroadcast, kAnyWorld, kAnySize, A::kChain},
      {Kind::kReduce, kAnyWorld, 64 * kKi, A::kTree},
      {Kind::kReduce, kAnyWorld, kAnySize, A::kChain},
  };
}

void SettleRules(bool crowded, AlgorithmPolicy* policy) {
  std::vector<AlgorithmRule>& rules = policy->rules;
  if (!crowded) {
    rules.erase(
        std::remove_if(rules.begin(), rules.end(),
                       [](const AlgorithmRule& rule) { return rule.crowded; }),
        rules.end());
  }
  for (AlgorithmRule& rule : rules) rule.crowded = false;
}

absl::Status CheckPolicy(const AlgorithmPolicy& policy) {
  if (policy.rules.size() > AlgorithmPolicy::kMaxRules) {
    return absl::InvalidArgumentError(
        absl::StrCat("an algorithm policy of ", policy.rules.size(),
                     " rules; it may have ", AlgorithmPolicy::kMaxRules));
  }
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    const AlgorithmRule& rule = policy.rules[i];
    if (Has(rule.kind, rule.algorithm) && rule.max_world_size >= 0 &&
        rule.max_bytes >= 0) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "rule ", i,
        " of the algorithm policy makes no sense: ", CallKindName(rule.kind),
        " by ", AlgorithmName(rule.algorithm), ", up to ", rule.max_world_size,
        " ranks and ", rule.max_bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Span<const Algorithm> AlgorithmsOf(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
      return kForAllReduce;
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
    case CallKind::kAllGatherV:
      return kForParts;
    case CallKind::kBroadcast:
      return kForBroadcast;
    case CallKind::kReduce:
      return kForReduce;
    case CallKind::kGather:
    case CallKind::kScatter:
      return kForRoot;
    case CallKind::kAllToAll:
    case CallKind::kAllToAllV:
      return kForAllToAll;
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
  if (!IsCollective(signature.kind) || !IsValidDType(signature.dtype) ||
      signature.count < 0 || world_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("no algorithm for ", signature.ToString(),
                     " in a world of ", world_size, " ranks"));
  }
  if (IsLossy(signature.wire)) {
    return ChooseForLossyWire(signature, world_size, policy);
  }
  if (signature.algorithm == Algorithm::kAuto) {
    return Choose(signature, world_size, policy);
  }
  if (Has(signature.kind, signature.algorithm)) return signature.algorithm;
  return absl::InvalidArgumentError(
      absl::StrCat(signature.ToString(), ": ", CallKindName(signature.kind),
                   " has no algorithm \"", AlgorithmName(signature.algorithm),
                   "\"; choose one of ", ChoiceText(signature.kind)));
}

absl::Status OverrideAlgorithms(absl::string_view text,
                                AlgorithmPolicy* policy) {
  std::vector<AlgorithmRule> rules;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    SHOAL_RETURN_IF_ERROR(
        AppendRules(absl::StripAsciiWhitespace(item), &rules));
  }
  policy->rules.insert(policy->rules.begin(), rules.begin(), rules.end());
  return absl::OkStatus();
}

std::string ExplainChoice(CallKind kind, int world_size,
                          const AlgorithmPolicy& policy) {
  CallSignature signature;
  signature.kind = kind;
  signature.dtype = DType::kU8;
  std::string text =
      absl::StrCat(CallKindName(kind), ", ", world_size, " ranks:\n");
  if (!IsCollective(kind)) return absl::StrCat(text, "  no choice\n");
  // Between two limits nothing changes.
  std::vector<std::int64_t> limits = {AlgorithmRule::kAnySize};
  for (const AlgorithmRule& rule : policy.rules) {
    if (rule.kind == kind && !rule.crowded) limits.push_back(rule.max_bytes);
  }
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  const auto choose = [&](std::int64_t bytes) {
    signature.count = bytes / PartsOf(kind, world_size);
    return Choose(signature, world_size, policy);
  };
  bool first = true;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const Algorithm algorithm = choose(limits[i]);
    if (i + 1 < limits.size() && choose(limits[i + 1]) == algorithm) continue;
    std::string range = i + 1 < limits.size()
                            ? absl::StrCat("up to ", limits[i], " bytes")
                            : std::string(first ? "any size" : "above");
    first = false;
    range.resize(std::max<std::size_t>(range.size() + 2, 26), ' ');
    absl::StrAppend(&text, "  ", range, AlgorithmName(algorithm), "\n");
  }
  return text;
}

}  // namespace shoal
