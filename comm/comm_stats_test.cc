// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/comm_stats.h"

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/comm/call.h"

namespace shoal {
namespace {

using ::testing::ContainsRegex;
using ::testing::Not;

CommStats TwoKinds() {
  CommStats stats;
  stats.by_kind[CallKind::kAllReduce] = {3, 1, 4000, absl::Milliseconds(10),
                                         absl::Milliseconds(4)};
  stats.by_kind[CallKind::kSend] = {2, 0, 50, absl::Milliseconds(1),
                                    absl::ZeroDuration()};
  return stats;
}

TEST(CommStatsTest, AddsUp) {
  const OperationStats total = TwoKinds().Total();
  EXPECT_EQ(total.succeeded, 5);
  EXPECT_EQ(total.failed, 1);
  EXPECT_EQ(total.bytes, 4050);
  EXPECT_EQ(total.elapsed, absl::Milliseconds(11));
  EXPECT_EQ(total.waiting, absl::Milliseconds(4));
  EXPECT_EQ(total.moving(), absl::Milliseconds(7));
  EXPECT_EQ(CommStats().Total().succeeded, 0);
}

TEST(CommStatsTest, HasALineForEachKindThatWasCalled) {
  const std::string table = TwoKinds().ToString();
  EXPECT_THAT(table,
              ContainsRegex("AllReduce +3 +1 +4000 +10.000 +4.000 +6.0"));
  EXPECT_THAT(table, ContainsRegex("Send +2 +0 +50 +1.000 +0.000 +1.000"));
  EXPECT_THAT(table, ContainsRegex("\nall +5 +1 +4050 "));
  EXPECT_THAT(table, Not(ContainsRegex("Barrier")));
}

}  // namespace
}  // namespace shoal
