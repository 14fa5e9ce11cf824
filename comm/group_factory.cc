// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/group_factory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace shoal::internal {

std::vector<int> RanksOfColor(absl::Span<const std::int64_t> colors,
                              absl::Span<const std::int64_t> keys,
                              std::int64_t color) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < colors.size(); ++rank) {
    if (colors[rank] == color) ranks.push_back(static_cast<int>(rank));
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [keys](int a, int b) { return keys[a] < keys[b]; });
  return ranks;
}

}  // namespace shoal::internal
