// SPDX-License-Identifier: Apache-2.0
//
// That the reference of the multi-process tests is worth being held to.

#include "shoal/tests/comm/test_vector.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>

#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::tests {
namespace {

float F32(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

float Input(int rank, std::int64_t i) {
  return F32(InputBits(DType::kF32, rank, i));
}

float AllReduce(Algorithm algorithm, int world, std::int64_t count,
                std::int64_t i, ReduceOp op = ReduceOp::kSum) {
  return F32(AllReduceBits(DType::kF32, op, algorithm, world, count, i));
}

TEST(InputBitsTest, DifferByRankAndPlace) {
  for (const DType dtype : kAllDTypes) {
    std::set<std::uint64_t> values;
    for (int rank = 0; rank < 8; ++rank) {
      for (std::int64_t i = 0; i < 8; ++i) {
        values.insert(InputBits(dtype, rank, i));
      }
    }
    // 64 draws, always the same ones; types of 8 and 16 bits have so few values
    // to draw from that some of them coincide. Data that did not depend on rank
    // or on place would have at most 8 values.
    const std::size_t size = DTypeSize(dtype);
    EXPECT_GT(values.size(), size == 1 ? 40u : size == 2 ? 55u : 62u) << dtype;
  }
}

TEST(AllReduceBitsTest, TheRingFoldsFromTheNextRankUpward) {
  // Three elements over three ranks: element c is chunk c.
  for (int c = 0; c < 3; ++c) {
    const float first = Input((c + 1) % 3, c);
    const float second = Input((c + 2) % 3, c);
    EXPECT_EQ(AllReduce(Algorithm::kRing, 3, 3, c),
              (first + second) + Input(c, c));
  }
  // Four elements: the first chunk has two, the others one.
  EXPECT_EQ(AllReduce(Algorithm::kRing, 3, 4, 1),
            (Input(1, 1) + Input(2, 1)) + Input(0, 1));
  EXPECT_EQ(AllReduce(Algorithm::kRing, 3, 4, 2),
            (Input(2, 2) + Input(0, 2)) + Input(1, 2));
  // One element: the only chunk that has any is chunk 0.
  EXPECT_EQ(AllReduce(Algorithm::kRing, 3, 1, 0),
            (Input(1, 0) + Input(2, 0)) + Input(0, 0));
}

TEST(AllReduceBitsTest, RecursiveDoublingIsATree) {
  const auto x = [](int rank) { return Input(rank, 5); };
  EXPECT_EQ(AllReduce(Algorithm::kRecursiveDoubling, 4, 9, 5),
            (x(0) + x(1)) + (x(2) + x(3)));
  EXPECT_EQ(AllReduce(Algorithm::kRecursiveDoubling, 3, 9, 5),
            (x(0) + x(1)) + x(2));
  EXPECT_EQ(AllReduce(Algorithm::kRecursiveDoubling, 6, 9, 5),
            ((x(0) + x(1)) + (x(2) + x(3))) + (x(4) + x(5)));
  EXPECT_EQ(AllReduce(Algorithm::kRecursiveDoubling, 5, 9, 5),
            ((x(0) + x(1)) + x(2)) + (x(3) + x(4)));
}

// Otherwise "the same bits" would say nothing about the order.
TEST(AllReduceBitsTest, TheOrderShows) {
  int differ = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    differ += AllReduce(Algorithm::kRing, 8, 1000, i) !=
              AllReduce(Algorithm::kRecursiveDoubling, 8, 1000, i);
  }
  EXPECT_GT(differ, 100);
}

TEST(AllReduceBitsTest, AveragesAreDividedOnce) {
  EXPECT_EQ(AllReduce(Algorithm::kRing, 3, 3, 0, ReduceOp::kAverage),
            AllReduce(Algorithm::kRing, 3, 3, 0) / 3);
  for (std::int64_t i = 0; i < 20; ++i) {
    std::int8_t sum = 0;
    for (int rank = 0; rank < 5; ++rank) {
      sum = static_cast<std::int8_t>(sum + InputBits(DType::kI8, rank, i));
    }
    EXPECT_EQ(AllReduceBits(DType::kI8, ReduceOp::kAverage, Algorithm::kRing, 5,
                            20, i),
              static_cast<std::uint8_t>(sum / 5));
  }
}

TEST(ReduceScatterBitsTest, IsTheRingOfEqualParts) {
  for (int part = 0; part < 3; ++part) {
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(ReduceScatterBits(DType::kF32, ReduceOp::kSum, Algorithm::kRing,
                                  3, 4, part, i),
                AllReduceBits(DType::kF32, ReduceOp::kSum, Algorithm::kRing, 3,
                              12, 4 * part + i));
    }
  }
}

TEST(TestVectorTest, LiesWhereItIsWanted) {
  for (int misalignment = 0; misalignment < 8; ++misalignment) {
    TestVector vector(DType::kF64, 3, misalignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(vector.data()) % 16,
              misalignment);
    vector.Fill(2);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(vector.Bits(i), InputBits(DType::kF64, 2, i));
    }
    SHOAL_EXPECT_OK(vector.CheckGuards());
    const std::uint64_t hash = vector.Hash();
    vector.data()[23] ^= 1;
    EXPECT_NE(vector.Hash(), hash);
    vector.data()[24] ^= 1;
    EXPECT_FALSE(vector.CheckGuards().ok());
  }
  TestVector empty(DType::kI8, 0);
  empty.data()[-1] = 0;
  EXPECT_FALSE(empty.CheckGuards().ok());
}

}  // namespace
}  // namespace shoal::tests
