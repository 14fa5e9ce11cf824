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

// Which collective has which, what each costs and in which order each combines
// its operands is in docs/architecture.md. n is the world size.
enum class Algorithm : std::uint8_t {
  // Chosen from the size, the world and what all ranks agreed on at joining.
  kAuto = 0,
  // Parts travel around the ring of ranks: each link carries the least that it
  // can, in n-1 hops, or 2(n-1) for AllReduce.
  kRing = 1,
  // ceil(log2 n) exchanges of the whole vector; for small ones.
  kRecursiveDoubling = 2,
  // ceil(log2 n) hops.
  kBinomialTree = 3,
  // ceil(log2 n) rounds of empty messages.
  kDissemination = 4,
  // One hop in which each rank sends every other one the part that is due to
  // it; for AllReduce a second one in which the reduced parts go to all
  // ("two-shot").
  kDirect = 5,
  // AllReduce: each rank sends every other one its whole vector; for small
  // ones.
  kOneShot = 6,
  // AllReduce: the vector is halved log2 n times and put together again; as
  // little data as a ring, in 2 log2 n hops.
  kHalvingDoubling = 7,
  // From rank to rank, in slices that follow one another.
  kChain = 8,
  // The balanced tree over ranks 0 to n-1: the same sum whatever the root.
  kTree = 9,
  // The root exchanges a message with every other rank.
  kLinear = 10,
  // Every two ranks exchange a message.
  kPairwise = 11,
};

inline constexpr Algorithm kAllAlgorithms[] = {Algorithm::kAuto,
                                               Algorithm::kRing,
                                               Algorithm::kRecursiveDoubling,
                                               Algorithm::kBinomialTree,
                                               Algorithm::kDissemination,
                                               Algorithm::kDirect,
                                               Algorithm::kOneShot,
                                               Algorithm::kHalvingDoubling,
                                               Algorithm::kChain,
                                               Algorithm::kTree,
                                               Algorithm::kLinear,
                                               Algorithm::kPairwise};

bool IsValidAlgorithm(Algorithm algorithm);

// "auto", "ring", "recursive-doubling", ...: the enumerators in lower case.
absl::string_view AlgorithmName(Algorithm algorithm);

// The inverse of `AlgorithmName`. `INVALID_ARGUMENT` names text and choice.
absl::StatusOr<Algorithm> ParseAlgorithm(absl::string_view name);

std::ostream& operator<<(std::ostream& out, Algorithm algorithm);

}  // namespace shoal

#endif  // SHOAL_COMM_ALGORITHM_H_
