// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/algorithm.h"

#include <set>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AlgorithmTest, ValuesOfTheWireFormat) {
  EXPECT_EQ(static_cast<int>(Algorithm::kAuto), 0);
  EXPECT_EQ(static_cast<int>(Algorithm::kRing), 1);
  EXPECT_EQ(static_cast<int>(Algorithm::kRecursiveDoubling), 2);
  EXPECT_EQ(static_cast<int>(Algorithm::kBinomialTree), 3);
  EXPECT_EQ(static_cast<int>(Algorithm::kDissemination), 4);
  EXPECT_EQ(static_cast<int>(Algorithm::kDirect), 5);
  EXPECT_EQ(static_cast<int>(Algorithm::kOneShot), 6);
  EXPECT_EQ(static_cast<int>(Algorithm::kHalvingDoubling), 7);
  EXPECT_EQ(static_cast<int>(Algorithm::kChain), 8);
  EXPECT_EQ(static_cast<int>(Algorithm::kTree), 9);
  EXPECT_EQ(static_cast<int>(Algorithm::kLinear), 10);
  EXPECT_EQ(static_cast<int>(Algorithm::kPairwise), 11);
}

TEST(AlgorithmTest, NamesAreReadBack) {
  std::set<std::string> names;
  for (int i = 0; i < 256; ++i) {
    const Algorithm algorithm = static_cast<Algorithm>(i);
    EXPECT_EQ(IsValidAlgorithm(algorithm), i <= 11) << i;
    if (!IsValidAlgorithm(algorithm)) continue;
    names.insert(std::string(AlgorithmName(algorithm)));
    EXPECT_THAT(ParseAlgorithm(AlgorithmName(algorithm)),
                IsOkAndHolds(algorithm));
    std::ostringstream text;
    text << algorithm;
    EXPECT_EQ(text.str(), AlgorithmName(algorithm));
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"auto", "ring", "recursive-doubling",
                                   "binomial-tree", "dissemination", "direct",
                                   "one-shot", "halving-doubling", "chain",
                                   "tree", "linear", "pairwise"}));
}

TEST(AlgorithmTest, WhatIsNoneHasANameThatIsNotReadBack) {
  EXPECT_EQ(AlgorithmName(static_cast<Algorithm>(12)), "algorithm(12)");
  for (const char* name : {"", "Ring", "trees", "algorithm(12)"}) {
    EXPECT_THAT(ParseAlgorithm(name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"" + std::string(name) + "\""),
                               HasSubstr("auto, ring, recursive-doubling, "
                                         "binomial-tree, dissemination"))));
  }
}

}  // namespace
}  // namespace shoal
