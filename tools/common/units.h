// SPDX-License-Identifier: Apache-2.0
//
// Sizes, times and bandwidths in the form in which people read them.
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_COMMON_UNITS_H_
#define SHOAL_TOOLS_COMMON_UNITS_H_

#include <cstdint>
#include <string>

#include "shoal/base/dialect.h"

namespace shoal::tools {

// "4 B", "64 KiB", "1.5 MiB": three digits at least where it does not come out
// even.
std::string FormatBytes(std::int64_t bytes);

// "8.25 us", "12.3 ms", "1.20 s": three digits.
std::string FormatSeconds(double seconds);

// "950 kB/s", "1.25 GB/s": three digits, powers of 1000, as nccl-tests has it.
std::string FormatBandwidth(double bytes_per_second);

// Bytes a second on the busiest link of an all-reduce, were it perfect:
// bytes / seconds * 2 (n - 1) / n. Comparable between worlds of different
// sizes (nccl-tests, doc/PERFORMANCE.md). 0 for one rank, or no time.
double AllReduceBusBandwidth(std::int64_t bytes, double seconds,
                             int world_size);

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_UNITS_H_
