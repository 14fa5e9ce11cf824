// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm a collective runs by when its caller does not say.
//
// The choice is a pure function of the call, the world size and an
// `AlgorithmPolicy` that all ranks agreed on when they joined: rank 0's counts.
// It never depends on one rank's own environment, clock or load, because ranks
// that choose differently deadlock or compute nonsense.
//
// Values and pure functions; thread-safe.

#ifndef SHOAL_COMM_ALGORITHM_POLICY_H_
#define SHOAL_COMM_ALGORITHM_POLICY_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"

namespace shoal {

// "Calls of this kind, in worlds up to this size, of at most so many bytes, go
// by this algorithm."
struct AlgorithmRule {
  static constexpr std::int32_t kAnyWorld =
      std::numeric_limits<std::int32_t>::max();
  static constexpr std::int64_t kAnySize =
      std::numeric_limits<std::int64_t>::max();

  CallKind kind = CallKind::kAllReduce;
  std::int32_t max_world_size = kAnyWorld;
  // Of the longer of a call's two buffers, where ranks have different ones that
  // of the rank with most: for AllGather the output, for Scatter the root's
  // input. 0: only empty calls. Counts as 0 for AllToAllV.
  std::int64_t max_bytes = kAnySize;
  Algorithm algorithm = Algorithm::kAuto;
  // For crowded machines only: where all ranks share one that has fewer cores,
  // a call takes as long as all its messages together, and not as its longest
  // chain of them. Does not count before `SettleRules`.
  bool crowded = false;

  friend bool operator==(const AlgorithmRule& a, const AlgorithmRule& b) {
    return a.kind == b.kind && a.max_world_size == b.max_world_size &&
           a.max_bytes == b.max_bytes && a.algorithm == b.algorithm &&
           a.crowded == b.crowded;
  }
  friend bool operator!=(const AlgorithmRule& a, const AlgorithmRule& b) {
    return !(a == b);
  }
};

// docs/performance.md has them as a table, and what was measured.
std::vector<AlgorithmRule> DefaultAlgorithmRules();

struct AlgorithmPolicy {
  static constexpr int kMaxRules = 1024;

  // The first that fits a call decides; where none does, the first of
  // `AlgorithmsOf` the kind.
  std::vector<AlgorithmRule> rules = DefaultAlgorithmRules();

  friend bool operator==(const AlgorithmPolicy& a, const AlgorithmPolicy& b) {
    return a.rules == b.rules;
  }
  friend bool operator!=(const AlgorithmPolicy& a, const AlgorithmPolicy& b) {
    return !(a == b);
  }
};

// Decides whether the rules for crowded machines count: then they become rules
// like all others, and else they are removed. Rank 0 does so, for all, once it
// knows where the ranks are.
void SettleRules(bool crowded, AlgorithmPolicy* policy);

// OK if there are at most kMaxRules rules, each of which names an algorithm
// that its collective has, and no negative limit; otherwise `INVALID_ARGUMENT`
// with the rule.
absl::Status CheckPolicy(const AlgorithmPolicy& policy);

// The algorithms that a collective has; none for Send and Recv.
absl::Span<const Algorithm> AlgorithmsOf(CallKind kind);

// The algorithm for `signature` in a world of `world_size` ranks; never kAuto.
// One that the signature names is kept. `INVALID_ARGUMENT` if the collective
// does not have that one, the call is no collective, its element type is
// unknown, its count negative, or the world size less than 1.
absl::StatusOr<Algorithm> ChooseAlgorithm(const CallSignature& signature,
                                          int world_size,
                                          const AlgorithmPolicy& policy);

// Puts what `text` says before all other rules of `policy`: "ring" for every
// collective that has it, or a list such as "allreduce:direct,broadcast:chain".
// A collective is named as in communicator.h, without regard to capitals, '-'
// and '_'; "auto" leaves the choice to the other rules. `INVALID_ARGUMENT`
// names what is not understood, and the choice.
absl::Status OverrideAlgorithms(absl::string_view text,
                                AlgorithmPolicy* policy);

// For people: what is chosen, size by size. Bytes are counted as in
// AlgorithmRule.
//   AllReduce, 4 ranks:
//     up to 65536 bytes   recursive-doubling
//     above               ring
std::string ExplainChoice(CallKind kind, int world_size,
                          const AlgorithmPolicy& policy);

}  // namespace shoal

#endif  // SHOAL_COMM_ALGORITHM_POLICY_H_
