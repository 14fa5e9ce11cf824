// SPDX-License-Identifier: Apache-2.0
//
// How slow this build of a test is, as its configuration says: sanitizers set
// the environment variable SHOAL_TEST_TIMEOUT_SCALE (.bazelrc).
//
// For tests. Thread-safe as long as nobody changes the environment.

#ifndef SHOAL_BASE_TIMEOUT_SCALE_H_
#define SHOAL_BASE_TIMEOUT_SCALE_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "shoal/base/dialect.h"

namespace shoal {

// How many times slower than an optimised build, from 1 to 1000. Deadlines that
// no correct program comes near are multiplied by it.
inline double TimeoutScale() {
  const char* const text = std::getenv("SHOAL_TEST_TIMEOUT_SCALE");
  // atof gives 0 for what is no number, and no comparison holds for a NaN.
  const double scale = text == nullptr ? 1 : std::atof(text);
  return scale > 1 ? std::min(scale, 1000.0) : 1;
}

// Of `count` cases, of which each tells a little, so many as a slow build gets
// through in the time of an optimised one; at least 1 if `count` is.
inline std::int64_t FewerIfSlow(std::int64_t count) {
  const auto fewer = static_cast<std::int64_t>(count / TimeoutScale());
  return std::max(fewer, std::min<std::int64_t>(count, 1));
}

// Takes every case of a sweep in an optimised build, and every twentieth in a
// slow one: the same ones in every process.
class CaseSampler {
 public:
  bool Take() { return !slow_ || seen_++ % 20 == 0; }

 private:
  const bool slow_ = TimeoutScale() > 1;
  int seen_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_BASE_TIMEOUT_SCALE_H_
