// SPDX-License-Identifier: Apache-2.0
//
// How often something is measured, and what its times come to.
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_COMMON_SAMPLING_H_
#define SHOAL_TOOLS_COMMON_SAMPLING_H_

#include <cstdint>
#include <vector>

#include "shoal/base/dialect.h"

namespace shoal::tools {

// How often to measure what took `seconds` the first time: as often as
// `budget_seconds` allow, at most `most` times; at least 3 times, or once if
// it took a second or more.
std::int64_t IterationsInBudget(double seconds, double budget_seconds,
                                std::int64_t most);

// What a benchmark that is not told how often takes: a quarter of a second, 3
// to 1000 times. The same for Shoal and for what it is compared with.
inline constexpr double kAutoSeconds = 0.25;
inline constexpr std::int64_t kAutoIterations = 1000;

// The middle one, or the mean of the two in the middle. 0 for none.
double Median(std::vector<double> values);

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_SAMPLING_H_
