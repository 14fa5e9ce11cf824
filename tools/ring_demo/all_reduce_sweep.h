// SPDX-License-Identifier: Apache-2.0
//
// All-reduces of growing size, each one timed and checked.
//
// Every rank's vector differs from every other's and from element to element,
// and consists of integers so small that sums of them are exact in f32 in
// whatever order they are made: an element is right or wrong, and no tolerance
// hides anything.

#ifndef SHOAL_TOOLS_RING_DEMO_ALL_REDUCE_SWEEP_H_
#define SHOAL_TOOLS_RING_DEMO_ALL_REDUCE_SWEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"

namespace shoal::ring_demo {

struct AllReduceFigures {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  Algorithm algorithm = Algorithm::kAuto;
  std::int64_t repetitions = 0;
  // From the call to its return, the median of the repetitions, on the rank
  // where that is longest.
  double seconds = 0;
  double bus_bandwidth = 0;  // bytes a second
  // On all ranks, in all repetitions.
  std::int64_t wrong_elements = 0;
};

// 4 B, 16 B, 64 B and so on up to `max_bytes`, which is the last.
// REQUIRES: max_bytes is at least 4.
std::vector<std::int64_t> SweepSizes(std::int64_t max_bytes);

// Collective: f32, sum, in place. All ranks get the same figures.
absl::StatusOr<AllReduceFigures> MeasureAllReduce(Communicator* communicator,
                                                  std::int64_t bytes);

// For people: one line each.
std::string AllReduceHeader();
std::string AllReduceLine(const AllReduceFigures& figures);

// The parts that know nothing of a communicator.

// Element i of a rank's vector, and of the sum of all ranks' vectors.
float SweepInput(int rank, std::int64_t i);
float SweepSum(int world_size, std::int64_t i);

// How many elements are not those of the sum.
std::int64_t CountWrongSums(absl::Span<const float> sums, int world_size);

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_ALL_REDUCE_SWEEP_H_
