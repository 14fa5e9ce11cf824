// SPDX-License-Identifier: Apache-2.0
//
// How slow this build of a test is, as its configuration says by environment
// variables (.bazelrc): SHOAL_TEST_TIMEOUT_SCALE in all sanitizers,
// SHOAL_TEST_CASE_DIVISOR where a sanitizer is so slow, and sees so little in
// programs of one thread, that long tests try fewer cases (tsan).
//
// For tests. Thread-safe as long as nobody changes the environment.

#ifndef SHOAL_BASE_TIMEOUT_SCALE_H_
#define SHOAL_BASE_TIMEOUT_SCALE_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "shoal/base/dialect.h"

namespace shoal {

namespace internal {

// Of the environment, from 1 to 1000.
inline double FactorOf(const char* variable) {
  const char* const text = std::getenv(variable);
  // atof gives 0 for what is no number, and no comparison holds for a NaN.
  const double factor = text == nullptr ? 1 : std::atof(text);
  return factor > 1 ? std::min(factor, 1000.0) : 1;
}

}  // namespace internal

// How many times slower than an optimised build, from 1 to 1000. Deadlines that
// no correct program comes near are multiplied by it.
inline double TimeoutScale() {
  return internal::FactorOf("SHOAL_TEST_TIMEOUT_SCALE");
}

// Whether this build is to try fewer cases.
inline bool TriesFewerCases() {
  return internal::FactorOf("SHOAL_TEST_CASE_DIVISOR") > 1;
}

// Of `count` cases, of which each tells a little, as many as this build is to
// try; at least 1 if `count` is.
inline std::int64_t CasesToTry(std::int64_t count) {
  const auto fewer = static_cast<std::int64_t>(
      count / internal::FactorOf("SHOAL_TEST_CASE_DIVISOR"));
  return std::max(fewer, std::min<std::int64_t>(count, 1));
}

// Takes every case of a sweep of several parameters in an optimised build,
// every seventh in a slow one, and every nineteenth where fewer cases are to be
// tried: the same ones in every process. The numbers are primes, so that no
// parameter gets always the same value.
class CaseSampler {
 public:
  bool Take() { return seen_++ % stride_ == 0; }

 private:
  const int stride_ = TriesFewerCases() ? 19 : TimeoutScale() > 1 ? 7 : 1;
  int seen_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_BASE_TIMEOUT_SCALE_H_
