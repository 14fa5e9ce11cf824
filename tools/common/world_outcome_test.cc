// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/world_outcome.h"

#include <signal.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace shoal::tools {
namespace {

RankEnd Good() { return {10, {0, 0}, false, ""}; }
RankEnd Said(const std::string& why) { return {11, {0, 1}, false, why}; }
RankEnd Killed() { return {12, {SIGKILL, 0}, false, {}}; }
RankEnd Hung() { return {13, {SIGKILL, 0}, true, {}}; }

TEST(WhyFailedTest, GoodEndsAreNoFailure) {
  EXPECT_EQ(WhyFailed({Good(), Good()}, 0), "");
  EXPECT_EQ(Complaints({Good(), Good()}), "");
}

TEST(WhyFailedTest, AKilledRankIsTheReasonForWhatOthersSay) {
  const std::vector<RankEnd> ranks = {Said("rank 2 died"), Hung(), Killed(),
                                      Said("rank 2 died")};
  EXPECT_EQ(WhyFailed(ranks, 0),
            "rank 2 (pid 12) was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(Complaints(ranks),
            "ranks 0, 3: rank 2 died\n"
            "rank 1: did not end by itself and was killed\n"
            "rank 2: was killed by signal 9 (SIGKILL)\n");
}

TEST(WhyFailedTest, AllThatWereKilledAreNamed) {
  EXPECT_EQ(WhyFailed({Killed(), Good(), Killed()}, 0),
            "rank 0 (pid 12) was killed by signal 9 (SIGKILL); "
            "rank 2 (pid 12) was killed by signal 9 (SIGKILL)");
}

TEST(WhyFailedTest, AnInterruptComesFirst) {
  EXPECT_EQ(WhyFailed({Killed(), Said("rank 0 died")}, SIGINT),
            "interrupted by signal 2 (SIGINT)");
}

TEST(WhyFailedTest, WhatAllSayNeedsNoNames) {
  EXPECT_EQ(WhyFailed({Said("3 wrong elements"), Said("3 wrong elements")}, 0),
            "3 wrong elements");
  EXPECT_EQ(WhyFailed({Good(), Said("no"), Said("yes"), Said("no")}, 0),
            "ranks 1, 3: no");
}

TEST(WhyFailedTest, WhatARankSaysExplainsMore) {
  const RankEnd exited = {11, {0, 3}, false, {}};
  EXPECT_EQ(WhyFailed({Hung(), exited, Said("rank 0 is silent"),
                       Said("rank 1 is silent")},
                      0),
            "rank 2: rank 0 is silent");
  EXPECT_EQ(WhyFailed({Hung(), Good(), exited}, 0),
            "rank 2: exited with code 3");
  EXPECT_EQ(WhyFailed({Good(), Hung()}, 0),
            "rank 1: did not end by itself and was killed");
}

TEST(WhyFailedTest, AnEndWithoutAVerdictIsAFailure) {
  EXPECT_EQ(WhyFailed({Good(), {11, {0, 0}, false, {}}}, 0),
            "rank 1: ended without a verdict");
  EXPECT_EQ(WhyFailed({Good(), {11, {0, 3}, false, {}}}, 0),
            "rank 1: exited with code 3");
  // A good word and a bad end.
  EXPECT_EQ(WhyFailed({Good(), {11, {0, 3}, false, ""}}, 0),
            "rank 1: exited with code 3");
}

}  // namespace
}  // namespace shoal::tools
