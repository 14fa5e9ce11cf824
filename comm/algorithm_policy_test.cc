// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/algorithm_policy.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/wire_format.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CallSignature Signature(CallKind kind, std::int64_t count,
                        Algorithm algorithm = Algorithm::kAuto,
                        DType dtype = DType::kF32) {
  CallSignature signature;
  signature.kind = kind;
  signature.dtype = dtype;
  signature.count = count;
  signature.algorithm = algorithm;
  return signature;
}

TEST(AlgorithmPolicyTest, AlgorithmsOfEachCollective) {
  EXPECT_THAT(AlgorithmsOf(CallKind::kAllReduce),
              ElementsAre(Algorithm::kRing, Algorithm::kRecursiveDoubling,
                          Algorithm::kDirect, Algorithm::kOneShot,
                          Algorithm::kHalvingDoubling, Algorithm::kTree));
  for (const CallKind kind : kCollectiveKinds) {
    EXPECT_FALSE(AlgorithmsOf(kind).empty());
  }
  EXPECT_THAT(AlgorithmsOf(CallKind::kSend), IsEmpty());
  EXPECT_THAT(AlgorithmsOf(static_cast<CallKind>(99)), IsEmpty());
}

AlgorithmRule Rule(CallKind kind, std::int32_t max_world_size,
                   std::int64_t max_bytes, Algorithm algorithm) {
  AlgorithmRule rule;
  rule.kind = kind;
  rule.max_world_size = max_world_size;
  rule.max_bytes = max_bytes;
  rule.algorithm = algorithm;
  return rule;
}

TEST(AlgorithmPolicyTest, EveryFieldCounts) {
  const AlgorithmPolicy base;
  EXPECT_EQ(base, AlgorithmPolicy());
  std::vector<AlgorithmPolicy> others(6);
  others[0].rules[0].kind = CallKind::kReduce;
  ++others[1].rules[0].max_world_size;
  ++others[2].rules[0].max_bytes;
  others[3].rules[0].algorithm = Algorithm::kTree;
  others[4].rules.pop_back();
  others[5].rules[0].crowded = !others[5].rules[0].crowded;
  for (const AlgorithmPolicy& other : others) {
    EXPECT_NE(base, other);
    EXPECT_FALSE(base == other);
  }
}

TEST(AlgorithmPolicyTest, ChecksItsRules) {
  AlgorithmPolicy policy;
  SHOAL_EXPECT_OK(CheckPolicy(policy));
  const AlgorithmRule good = Rule(CallKind::kReduce, 4, 100, Algorithm::kChain);
  for (int field = 0; field < 5; ++field) {
    AlgorithmRule bad = good;
    if (field == 0) bad.kind = CallKind::kSend;
    if (field == 1) bad.max_world_size = -1;
    if (field == 2) bad.max_bytes = -1;
    if (field == 3) bad.algorithm = Algorithm::kRing;
    if (field == 4) bad.algorithm = static_cast<Algorithm>(99);
    policy.rules = {good, bad};
    EXPECT_THAT(
        CheckPolicy(policy),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rule 1")));
  }
  policy.rules.assign(AlgorithmPolicy::kMaxRules, good);
  SHOAL_EXPECT_OK(CheckPolicy(policy));
  policy.rules.push_back(good);
  EXPECT_THAT(CheckPolicy(policy), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("1025 rules")));
}

TEST(ChooseAlgorithmTest, RulesForCrowdedMachinesCountOnceThatIsSettled) {
  AlgorithmRule rule = Rule(CallKind::kAllReduce, 8, 1000, Algorithm::kOneShot);
  rule.crowded = true;
  AlgorithmPolicy policy;
  policy.rules = {rule, Rule(CallKind::kAllReduce, 8, 500, Algorithm::kTree)};
  const auto choose = [](const AlgorithmPolicy& by) {
    return ChooseAlgorithm(Signature(CallKind::kAllReduce, 1), 4, by);
  };
  EXPECT_THAT(choose(policy), IsOkAndHolds(Algorithm::kTree));
  AlgorithmPolicy crowded = policy;
  SettleRules(/*crowded=*/true, &crowded);
  EXPECT_THAT(choose(crowded), IsOkAndHolds(Algorithm::kOneShot));
  EXPECT_EQ(crowded.rules.size(), 2);
  SettleRules(/*crowded=*/false, &policy);
  EXPECT_THAT(choose(policy), IsOkAndHolds(Algorithm::kTree));
  EXPECT_EQ(policy.rules.size(), 1);
}

TEST(ChooseAlgorithmTest, ALossyWirePassesOverRulesThatItDoesNotGoWith) {
  AlgorithmPolicy policy;
  policy.rules = {
      Rule(CallKind::kAllReduce, 8, 1000, Algorithm::kTree),
      Rule(CallKind::kAllReduce, 8, 2000, Algorithm::kDirect),
      Rule(CallKind::kAllReduce, 8, 4000, Algorithm::kHalvingDoubling)};
  const auto choose = [&](std::int64_t count) {
    CallSignature signature = Signature(CallKind::kAllReduce, count);
    signature.wire = WireFormat::kBF16;
    return ChooseAlgorithm(signature, 4, policy);
  };
  EXPECT_THAT(choose(10), IsOkAndHolds(Algorithm::kDirect));
  EXPECT_THAT(choose(1000), IsOkAndHolds(Algorithm::kRing));
}

TEST(ChooseAlgorithmTest, TheFirstRuleThatFitsDecides) {
  AlgorithmPolicy policy;
  policy.rules = {
      Rule(CallKind::kAllReduce, 2, 1000, Algorithm::kOneShot),
      Rule(CallKind::kAllReduce, 8, 100, Algorithm::kTree),
      Rule(CallKind::kAllReduce, 8, 5000, Algorithm::kDirect),
      Rule(CallKind::kReduce, 8, 1 << 30, Algorithm::kLinear),
  };
  const auto choose = [&](int world_size, std::int64_t count, DType dtype) {
    return ChooseAlgorithm(
        Signature(CallKind::kAllReduce, count, Algorithm::kAuto, dtype),
        world_size, policy);
  };
  for (const DType dtype : kAllDTypes) {
    const std::int64_t size = DTypeSize(dtype);
    EXPECT_THAT(choose(2, 1000 / size, dtype),
                IsOkAndHolds(Algorithm::kOneShot));
    EXPECT_THAT(choose(2, 1000 / size + 1, dtype),
                IsOkAndHolds(Algorithm::kDirect));
    EXPECT_THAT(choose(3, 0, dtype), IsOkAndHolds(Algorithm::kTree));
    EXPECT_THAT(choose(8, 100 / size + 1, dtype),
                IsOkAndHolds(Algorithm::kDirect));
    EXPECT_THAT(choose(9, 0, dtype), IsOkAndHolds(Algorithm::kRing));
    EXPECT_THAT(choose(8, 5000 / size + 1, dtype),
                IsOkAndHolds(Algorithm::kRing));
    EXPECT_THAT(choose(8, std::numeric_limits<std::int64_t>::max(), dtype),
                IsOkAndHolds(Algorithm::kRing));
  }
}

TEST(ChooseAlgorithmTest, PartsCountTogether) {
  AlgorithmPolicy policy;
  policy.rules = {Rule(CallKind::kAllGather, 100, 400, Algorithm::kDirect),
                  Rule(CallKind::kAllGatherV, 100, 400, Algorithm::kDirect)};
  const auto choose = [&](CallKind kind, std::int64_t count) {
    return ChooseAlgorithm(Signature(kind, count), /*world_size=*/10, policy);
  };
  EXPECT_THAT(choose(CallKind::kAllGather, 10),
              IsOkAndHolds(Algorithm::kDirect));
  EXPECT_THAT(choose(CallKind::kAllGather, 11), IsOkAndHolds(Algorithm::kRing));
  EXPECT_THAT(choose(CallKind::kAllGatherV, 100),
              IsOkAndHolds(Algorithm::kDirect));
  EXPECT_THAT(choose(CallKind::kAllGatherV, 101),
              IsOkAndHolds(Algorithm::kRing));
}

TEST(ChooseAlgorithmTest, TheDefaultsCoverEveryCollective) {
  for (const CallKind kind : kCollectiveKinds) {
    for (const int world_size : {1, 2, 3, 8, 9, 64, 1000}) {
      for (const std::int64_t count : {0, 1, 1000, 1000000}) {
        SHOAL_ASSERT_OK_AND_ASSIGN(
            const Algorithm algorithm,
            ChooseAlgorithm(Signature(kind, count), world_size, {}));
        EXPECT_NE(algorithm, Algorithm::kAuto);
        // Kept when it is asked for.
        EXPECT_THAT(
            ChooseAlgorithm(Signature(kind, count, algorithm), world_size, {}),
            IsOkAndHolds(algorithm));
      }
    }
  }
}

TEST(OverrideAlgorithmsTest, OneNameIsForAllThatHaveIt) {
  AlgorithmPolicy policy;
  SHOAL_ASSERT_OK(OverrideAlgorithms("ring", &policy));
  SHOAL_EXPECT_OK(CheckPolicy(policy));
  for (const CallKind kind : {CallKind::kAllReduce, CallKind::kReduceScatter,
                              CallKind::kAllGather, CallKind::kAllGatherV}) {
    EXPECT_THAT(ChooseAlgorithm(Signature(kind, 1), 4, policy),
                IsOkAndHolds(Algorithm::kRing));
  }
  for (const CallKind kind : {CallKind::kBroadcast, CallKind::kBarrier}) {
    EXPECT_EQ(ChooseAlgorithm(Signature(kind, 1), 4, policy).value(),
              ChooseAlgorithm(Signature(kind, 1), 4, {}).value());
  }
}

TEST(OverrideAlgorithmsTest, AListIsByCollective) {
  AlgorithmPolicy policy;
  SHOAL_ASSERT_OK(OverrideAlgorithms(
      "allreduce:direct, Broadcast:chain,all-gather-v:direct,reduce:auto",
      &policy));
  EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kAllReduce, 1), 4, policy),
              IsOkAndHolds(Algorithm::kDirect));
  EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kBroadcast, 1), 4, policy),
              IsOkAndHolds(Algorithm::kChain));
  EXPECT_THAT(
      ChooseAlgorithm(Signature(CallKind::kAllGatherV, 1 << 30), 4, policy),
      IsOkAndHolds(Algorithm::kDirect));
  EXPECT_EQ(policy.rules.size(), AlgorithmPolicy().rules.size() + 3);
}

TEST(OverrideAlgorithmsTest, NamesWhatItDoesNotUnderstand) {
  const struct {
    const char* text;
    const char* words;
  } kCases[] = {
      {"", "unknown algorithm \"\""},
      {"fast", "unknown algorithm \"fast\"; choose one of auto, ring"},
      {"ring,", "unknown algorithm \"\""},
      {"allreduce:fast", "unknown algorithm \"fast\""},
      {"sum:ring", "unknown collective \"sum\"; choose one of allreduce, "},
      {"allreduce:chain",
       "AllReduce has no algorithm \"chain\"; choose one of auto, ring, "},
      {"send:ring", "unknown collective \"send\""},
  };
  for (const auto& one : kCases) {
    AlgorithmPolicy policy;
    EXPECT_THAT(
        OverrideAlgorithms(one.text, &policy),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(one.words)));
    EXPECT_EQ(policy, AlgorithmPolicy());
  }
}

TEST(ExplainChoiceTest, SizeBySize) {
  AlgorithmPolicy policy;
  policy.rules = {
      Rule(CallKind::kAllReduce, 2, 1000, Algorithm::kOneShot),
      Rule(CallKind::kAllReduce, 8, 100, Algorithm::kTree),
      Rule(CallKind::kAllReduce, 8, 5000, Algorithm::kTree),
      Rule(CallKind::kReduce, 8, 77, Algorithm::kLinear),
  };
  EXPECT_EQ(ExplainChoice(CallKind::kAllReduce, 2, policy),
            "AllReduce, 2 ranks:\n"
            "  up to 1000 bytes          one-shot\n"
            "  up to 5000 bytes          tree\n"
            "  above                     ring\n");
  EXPECT_EQ(ExplainChoice(CallKind::kAllReduce, 4, policy),
            "AllReduce, 4 ranks:\n"
            "  up to 5000 bytes          tree\n"
            "  above                     ring\n");
  EXPECT_EQ(ExplainChoice(CallKind::kAllReduce, 9, policy),
            "AllReduce, 9 ranks:\n"
            "  any size                  ring\n");
  EXPECT_EQ(ExplainChoice(CallKind::kSend, 9, policy),
            "Send, 9 ranks:\n  no choice\n");
}

TEST(ChooseAlgorithmTest, WhatTheCallNamesIsKeptOrRefused) {
  EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kAllReduce, 1 << 30,
                                        Algorithm::kRecursiveDoubling),
                              4, {}),
              IsOkAndHolds(Algorithm::kRecursiveDoubling));
  EXPECT_THAT(ChooseAlgorithm(
                  Signature(CallKind::kAllReduce, 1, Algorithm::kRing), 4, {}),
              IsOkAndHolds(Algorithm::kRing));
  EXPECT_THAT(
      ChooseAlgorithm(
          Signature(CallKind::kAllReduce, 1, Algorithm::kBinomialTree), 4, {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("AllReduce has no algorithm \"binomial-tree\""),
                     HasSubstr("choose one of auto, ring, "
                               "recursive-doubling, direct"))));
  EXPECT_THAT(ChooseAlgorithm(
                  Signature(CallKind::kBarrier, 0, Algorithm::kRing), 4, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ChooseAlgorithmTest, RefusesWhatIsNoCollective) {
  const auto expect_refused = [](const CallSignature& signature,
                                 int world_size) {
    EXPECT_THAT(ChooseAlgorithm(signature, world_size, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(signature.ToString())));
  };
  expect_refused(Signature(CallKind::kSend, 1), 4);
  expect_refused(Signature(static_cast<CallKind>(99), 1), 4);
  expect_refused(Signature(CallKind::kAllReduce, -1), 4);
  expect_refused(Signature(CallKind::kAllReduce, 1), 0);
  expect_refused(Signature(CallKind::kAllReduce, 1, Algorithm::kAuto,
                           static_cast<DType>(99)),
                 4);
}

}  // namespace
}  // namespace shoal
