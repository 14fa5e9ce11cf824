// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/units.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shoal::tools {
namespace {

// 1.00 to 999 with three digits.
std::string ThreeDigits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f", decimals, value);
}

}  // namespace

std::string FormatBytes(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  int unit = 0;
  std::int64_t unit_bytes = 1024;
  while (unit < 3 && bytes / unit_bytes >= 1024) {
    unit_bytes *= 1024;
    ++unit;
  }
  if (bytes % unit_bytes == 0) {
    return absl::StrCat(bytes / unit_bytes, " ", kUnits[unit]);
  }
  return absl::StrCat(ThreeDigits(static_cast<double>(bytes) / unit_bytes), " ",
                      kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  const double us = seconds * 1e6;
  if (us < 999.5) return absl::StrCat(ThreeDigits(us), " us");
  if (us < 999.5e3) return absl::StrCat(ThreeDigits(us / 1e3), " ms");
  return absl::StrCat(ThreeDigits(seconds), " s");
}

std::string FormatBandwidth(double bytes_per_second) {
  if (bytes_per_second < 999.5e3) {
    return absl::StrCat(ThreeDigits(bytes_per_second / 1e3), " kB/s");
  }
  if (bytes_per_second < 999.5e6) {
    return absl::StrCat(ThreeDigits(bytes_per_second / 1e6), " MB/s");
  }
  return absl::StrCat(ThreeDigits(bytes_per_second / 1e9), " GB/s");
}

double AllReduceBusBandwidth(std::int64_t bytes, double seconds,
                             int world_size) {
  if (seconds <= 0) return 0;
  return static_cast<double>(bytes) / seconds * 2 * (world_size - 1) /
         world_size;
}

}  // namespace shoal::tools
