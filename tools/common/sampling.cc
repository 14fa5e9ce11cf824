// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/sampling.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shoal::tools {

std::int64_t IterationsInBudget(double seconds, double budget_seconds,
                                std::int64_t most) {
  if (seconds * static_cast<double>(most) <= budget_seconds) return most;
  const std::int64_t least = seconds < 1 ? 3 : 1;
  return std::max<std::int64_t>(least, budget_seconds / seconds);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace shoal::tools
