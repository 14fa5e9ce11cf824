// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/stopwatch.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(StopwatchTest, GoesForwardFromZero) {
  const Stopwatch outer;
  const Stopwatch inner;
  const absl::Duration first = inner.Elapsed();
  EXPECT_GE(first, absl::ZeroDuration());
  while (inner.Elapsed() == first) {
  }
  EXPECT_GT(inner.Elapsed(), first);
  EXPECT_GE(outer.Elapsed(), first);
  const double seconds = inner.Seconds();
  EXPECT_GT(seconds, absl::ToDoubleSeconds(first));
  EXPECT_LE(seconds, absl::ToDoubleSeconds(inner.Elapsed()));
}

}  // namespace
}  // namespace shoal
