// SPDX-License-Identifier: Apache-2.0
//
// EvenSplit: `total` units in `parts` contiguous parts whose sizes differ by at
// most one. Pipeline blocks and block-aligned shards are both cut this way.
#ifndef SHOAL_PARTITION_EVEN_SPLIT_H_
#define SHOAL_PARTITION_EVEN_SPLIT_H_

#include <algorithm>
#include <cstdint>

#include "shoal/partition/range.h"

namespace shoal::internal {

// Part `index`: total / parts units, and one more in the first total % parts
// parts. The parts tile [0, total) in the order of `index`; with more parts
// than units the last ones are empty. Cannot overflow: no value exceeds
// `total`. REQUIRES: total >= 0 and 0 <= index < parts.
inline Range EvenSplit(int64_t total, int index, int parts) {
  const int64_t per_part = total / parts;
  const int64_t extra = total % parts;
  const int64_t begin = index * per_part + std::min<int64_t>(index, extra);
  return {begin, begin + per_part + (index < extra ? 1 : 0)};
}

}  // namespace shoal::internal

#endif  // SHOAL_PARTITION_EVEN_SPLIT_H_
