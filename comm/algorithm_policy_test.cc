// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/algorithm_policy.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/cost_model.h"
#include "shoal/comm/dtype.h"

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
              ElementsAre(Algorithm::kRing, Algorithm::kRecursiveDoubling));
  EXPECT_THAT(AlgorithmsOf(CallKind::kReduceScatter),
              ElementsAre(Algorithm::kRing));
  EXPECT_THAT(AlgorithmsOf(CallKind::kAllGather),
              ElementsAre(Algorithm::kRing));
  EXPECT_THAT(AlgorithmsOf(CallKind::kBroadcast),
              ElementsAre(Algorithm::kBinomialTree));
  EXPECT_THAT(AlgorithmsOf(CallKind::kBarrier),
              ElementsAre(Algorithm::kDissemination));
  EXPECT_THAT(AlgorithmsOf(CallKind::kSend), IsEmpty());
  EXPECT_THAT(AlgorithmsOf(static_cast<CallKind>(99)), IsEmpty());
}

TEST(AlgorithmPolicyTest, EveryThresholdCounts) {
  const AlgorithmPolicy base;
  EXPECT_EQ(base, AlgorithmPolicy());
  for (int i = 0; i < AlgorithmPolicy::kWorlds; ++i) {
    AlgorithmPolicy other;
    ++other.recursive_doubling_max_bytes[i];
    EXPECT_NE(base, other);
    EXPECT_FALSE(base == other);
  }
}

TEST(ChooseAlgorithmTest, AllReduceBySizeAndWorld) {
  AlgorithmPolicy policy;
  for (int i = 0; i < AlgorithmPolicy::kWorlds; ++i) {
    policy.recursive_doubling_max_bytes[i] = 100 * (i + 1);
  }
  for (int world_size = 2; world_size <= 20; ++world_size) {
    const std::int64_t max_bytes = 100 * (world_size < 9 ? world_size - 1 : 8);
    for (const DType dtype : kAllDTypes) {
      const std::int64_t size = DTypeSize(dtype);
      const std::int64_t most = max_bytes / size;
      for (const std::int64_t count : {std::int64_t{0}, most}) {
        EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kAllReduce, count,
                                              Algorithm::kAuto, dtype),
                                    world_size, policy),
                    IsOkAndHolds(Algorithm::kRecursiveDoubling));
      }
      for (const std::int64_t count :
           {most + 1, std::numeric_limits<std::int64_t>::max()}) {
        EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kAllReduce, count,
                                              Algorithm::kAuto, dtype),
                                    world_size, policy),
                    IsOkAndHolds(Algorithm::kRing))
            << world_size << " " << count << " " << dtype;
      }
    }
  }
}

TEST(ChooseAlgorithmTest, NegativeThresholdsMeanNever) {
  AlgorithmPolicy policy;
  policy.recursive_doubling_max_bytes.fill(-1);
  EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kAllReduce, 0), 4, policy),
              IsOkAndHolds(Algorithm::kRing));
  policy.recursive_doubling_max_bytes.fill(0);
  EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kAllReduce, 0), 4, policy),
              IsOkAndHolds(Algorithm::kRecursiveDoubling));
  EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kAllReduce, 1), 4, policy),
              IsOkAndHolds(Algorithm::kRing));
}

TEST(ChooseAlgorithmTest, TheOthersHaveOneEach) {
  for (const int world_size : {1, 2, 64}) {
    for (const std::int64_t count : {0, 1, 1000000}) {
      const auto choose = [&](CallKind kind) {
        return ChooseAlgorithm(Signature(kind, count), world_size, {});
      };
      EXPECT_THAT(choose(CallKind::kReduceScatter),
                  IsOkAndHolds(Algorithm::kRing));
      EXPECT_THAT(choose(CallKind::kAllGather), IsOkAndHolds(Algorithm::kRing));
      EXPECT_THAT(choose(CallKind::kBroadcast),
                  IsOkAndHolds(Algorithm::kBinomialTree));
      EXPECT_THAT(choose(CallKind::kBarrier),
                  IsOkAndHolds(Algorithm::kDissemination));
    }
  }
  EXPECT_THAT(ChooseAlgorithm(Signature(CallKind::kAllReduce, 1), 1, {}),
              IsOkAndHolds(Algorithm::kRing));
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
                               "recursive-doubling"))));
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

double Price(Algorithm algorithm, std::int64_t bytes, int world_size) {
  const auto price = internal::PriceCollective(
      Signature(CallKind::kAllReduce, bytes / 4, algorithm), world_size,
      internal::kLoopbackCost);
  if (!price.ok()) {
    ADD_FAILURE() << price.status();
    return 0;
  }
  return *price;
}

// The defaults are the largest powers of two up to which recursive doubling
// costs no more than the ring; in larger worlds it pays for longer.
TEST(AlgorithmPolicyTest, DefaultsFollowFromTheCostModel) {
  const AlgorithmPolicy policy;
  const auto doubling_pays = [](std::int64_t bytes, int world_size) {
    return Price(Algorithm::kRecursiveDoubling, bytes, world_size) <=
           Price(Algorithm::kRing, bytes, world_size);
  };
  for (int world_size = 2; world_size <= AlgorithmPolicy::kWorlds + 1;
       ++world_size) {
    std::int64_t bytes = 4;
    while (doubling_pays(2 * bytes, world_size)) bytes *= 2;
    EXPECT_EQ(policy.recursive_doubling_max_bytes[world_size - 2], bytes)
        << world_size;
  }
  for (int world_size = 10; world_size <= 64; ++world_size) {
    EXPECT_TRUE(
        doubling_pays(policy.recursive_doubling_max_bytes.back(), world_size))
        << world_size;
  }
}

}  // namespace
}  // namespace shoal
