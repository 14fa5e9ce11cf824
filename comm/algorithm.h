// SPDX-License-Identifier: Apache-2.0
//
// The names of the algorithms by which collectives are carried out.
//
// The numeric values travel in message headers and never change.
// Values; thread-safe.

#ifndef SHOAL_COMM_ALGORITHM_H_
#define SHOAL_COMM_ALGORITHM_H_

#include <cstdint>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal {

enum class Algorithm : std::uint8_t {
  // Chosen from the size, the world and what all ranks agreed on at joining.
  kAuto = 0,
  // AllReduce, ReduceScatter, AllGather: bandwidth-optimal, 2(n-1) or n-1 hops.
  kRing = 1,
  // AllReduce: ceil(log2 n) exchanges of the whole vector; for small ones.
  kRecursiveDoubling = 2,
  // Broadcast: ceil(log2 n) hops.
  kBinomialTree = 3,
  // Barrier: ceil(log2 n) rounds of empty messages.
  kDissemination = 4,
};

bool IsValidAlgorithm(Algorithm algorithm);

// "auto", "ring", "recursive-doubling", "binomial-tree", "dissemination".
absl::string_view AlgorithmName(Algorithm algorithm);

// The inverse of `AlgorithmName`. `INVALID_ARGUMENT` names text and choice.
absl::StatusOr<Algorithm> ParseAlgorithm(absl::string_view name);

std::ostream& operator<<(std::ostream& out, Algorithm algorithm);

}  // namespace shoal

#endif  // SHOAL_COMM_ALGORITHM_H_
