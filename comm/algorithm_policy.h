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

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"

namespace shoal {

struct AlgorithmPolicy {
  // An AllReduce of at most so many bytes goes by recursive doubling, a larger
  // one by a ring. Element i is for worlds of i + 2 ranks, the last one for all
  // larger worlds too. 0: only empty ones; negative: never.
  //
  // The defaults are where cost_model.h prices both alike, for a link of 5
  // microseconds and 4 GB/s and a reduction of 12.5 GB/s, rounded down to a
  // power of two. Recursive doubling suffers where the world is no power of
  // two: it takes two more hops of the whole vector.
  static constexpr int kWorlds = 8;
  std::array<std::int64_t, kWorlds> recursive_doubling_max_bytes = {
      64 << 10 /* 2 ranks */, 8 << 10 /* 3 */,  64 << 10 /* 4 */,
      16 << 10 /* 5 */,       32 << 10 /* 6 */, 32 << 10 /* 7 */,
      64 << 10 /* 8 */,       32 << 10 /* 9 and more */};

  friend bool operator==(const AlgorithmPolicy& a, const AlgorithmPolicy& b) {
    return a.recursive_doubling_max_bytes == b.recursive_doubling_max_bytes;
  }
  friend bool operator!=(const AlgorithmPolicy& a, const AlgorithmPolicy& b) {
    return !(a == b);
  }
};

// The algorithms that a collective has; none for Send and Recv.
absl::Span<const Algorithm> AlgorithmsOf(CallKind kind);

// The algorithm for `signature` in a world of `world_size` ranks; never kAuto.
// One that the signature names is kept. `INVALID_ARGUMENT` if the collective
// does not have that one, the call is no collective, its element type is
// unknown, its count negative, or the world size less than 1.
absl::StatusOr<Algorithm> ChooseAlgorithm(const CallSignature& signature,
                                          int world_size,
                                          const AlgorithmPolicy& policy);

}  // namespace shoal

#endif  // SHOAL_COMM_ALGORITHM_POLICY_H_
