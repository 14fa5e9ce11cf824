// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/verdict.h"

#include <optional>

#include "gtest/gtest.h"

namespace shoal::tools {
namespace {

TEST(VerdictTest, IsOneLine) {
  EXPECT_EQ(VerdictLine("ring_demo", ""), "ring_demo: OK");
  EXPECT_EQ(VerdictLine("ring_demo", "rank 2\ndied"),
            "ring_demo: FAILED: rank 2 died");
}

TEST(VerdictTest, IsReadAsItWasWritten) {
  EXPECT_EQ(ReadVerdict("ring_demo", VerdictLine("ring_demo", "")), "");
  EXPECT_EQ(ReadVerdict("ring_demo", VerdictLine("ring_demo", "rank 2 died")),
            "rank 2 died");
  for (const char* line :
       {"", "ring_demo: OK ", "ring_demo: FAILED", " ring_demo: OK",
        "comm_bench: OK", "  rank  host"}) {
    EXPECT_EQ(ReadVerdict("ring_demo", line), std::nullopt) << line;
  }
}

}  // namespace
}  // namespace shoal::tools
