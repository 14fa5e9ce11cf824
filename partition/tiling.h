// SPDX-License-Identifier: Apache-2.0
//
// The property of every partition, for tests: the ranges of all owners, in
// order, are disjoint and cover everything.
#ifndef SHOAL_PARTITION_TILING_H_
#define SHOAL_PARTITION_TILING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "shoal/partition/range.h"

namespace shoal::internal {

// Success if each range is valid and begins where the one before it ends, the
// first one at 0, and the last one ends at `total`.
inline testing::AssertionResult TilesInOrder(const std::vector<Range>& ranges,
                                             int64_t total) {
  int64_t cursor = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i].Validate().ok() || ranges[i].begin != cursor) {
      return testing::AssertionFailure()
             << "range " << i << " is " << ranges[i] << ", but " << cursor
             << " is the next index to own";
    }
    cursor = ranges[i].end;
  }
  if (cursor != total) {
    return testing::AssertionFailure()
           << "the ranges end at " << cursor << ", not at " << total;
  }
  return testing::AssertionSuccess();
}

// The largest size less the smallest one. REQUIRES: there is a range.
inline int64_t SizeSpread(const std::vector<Range>& ranges) {
  int64_t smallest = ranges.front().size();
  int64_t largest = smallest;
  for (const Range& range : ranges) {
    smallest = std::min(smallest, range.size());
    largest = std::max(largest, range.size());
  }
  return largest - smallest;
}

}  // namespace shoal::internal

#endif  // SHOAL_PARTITION_TILING_H_
