// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/verdict.h"

#include <optional>

#include "gtest/gtest.h"

namespace shoal::ring_demo {
namespace {

TEST(VerdictTest, IsOneLine) {
  EXPECT_EQ(VerdictLine(""), "ring_demo: OK");
  EXPECT_EQ(VerdictLine("rank 2\ndied"), "ring_demo: FAILED: rank 2 died");
}

TEST(VerdictTest, IsReadAsItWasWritten) {
  EXPECT_EQ(ReadVerdict(VerdictLine("")), "");
  EXPECT_EQ(ReadVerdict(VerdictLine("rank 2 died")), "rank 2 died");
  for (const char* line : {"", "ring_demo: OK ", "ring_demo: FAILED",
                           " ring_demo: OK", "  rank  host"}) {
    EXPECT_EQ(ReadVerdict(line), std::nullopt) << line;
  }
}

}  // namespace
}  // namespace shoal::ring_demo
