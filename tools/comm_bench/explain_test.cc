// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/explain.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/tools/comm_bench/collectives.h"
#include "shoal/tools/comm_bench/flags.h"

namespace shoal::comm_bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(ExplainTextTest, FollowsThePolicy) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const Flags flags,
                             ParseFlags({"-b", "1K", "-e", "1M", "-f", "32"}));
  AlgorithmPolicy policy;
  policy.rules = {{CallKind::kAllReduce, AlgorithmRule::kAnyWorld, 32 << 10,
                   Algorithm::kRecursiveDoubling},
                  {CallKind::kAllReduce, AlgorithmRule::kAnyWorld,
                   AlgorithmRule::kAnySize, Algorithm::kRing}};
  SHOAL_ASSERT_OK_AND_ASSIGN(const std::string text,
                             ExplainText(flags, 4, policy));
  EXPECT_THAT(text, HasSubstr("# all_reduce, f32 sum, 4 ranks\n"));
  EXPECT_THAT(text, ContainsRegex("1 KiB +256 +recursive-doubling\n"));
  EXPECT_THAT(text, ContainsRegex("32 KiB +8192 +recursive-doubling\n"));
  EXPECT_THAT(text, ContainsRegex("1 MiB +262144 +ring\n"));
}

TEST(ExplainTextTest, HasAWordForEveryCollective) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const Flags flags,
                             ParseFlags({"--collective", "all"}));
  SHOAL_ASSERT_OK_AND_ASSIGN(const std::string text,
                             ExplainText(flags, 1, AlgorithmPolicy()));
  for (const Collective* collective : flags.collectives) {
    EXPECT_THAT(text, HasSubstr("# " + std::string(collective->name)));
  }
}

}  // namespace
}  // namespace shoal::comm_bench
