// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/parallel_product.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "shoal/partition/tensor_shard.h"

namespace shoal::ring_demo {
namespace {

TEST(PartOfProductTest, IsTheProduct) {
  const std::vector<float> product = PartOfProduct(3, {0, 5}, {0, 4});
  ASSERT_EQ(product.size(), 12);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      float sum = 0;
      for (int k = 0; k < 5; ++k) sum += ProductX(i, k) * ProductW(k, j);
      EXPECT_EQ(product[4 * i + j], sum);
    }
  }
}

TEST(PartOfProductTest, SummandsAndColumnsMakeTheWhole) {
  const std::vector<float> whole = PartOfProduct(2, {0, 9}, {0, 5});
  const std::vector<float> a = PartOfProduct(2, {0, 4}, {0, 5});
  const std::vector<float> b = PartOfProduct(2, {4, 9}, {0, 5});
  const std::vector<float> right = PartOfProduct(2, {0, 9}, {2, 5});
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 5; ++j) {
      EXPECT_EQ(a[5 * i + j] + b[5 * i + j], whole[5 * i + j]);
      if (j >= 2) {
        EXPECT_EQ(right[3 * i + j - 2], whole[5 * i + j]);
      }
    }
  }
  EXPECT_EQ(PartOfProduct(2, {3, 3}, {0, 5}), std::vector<float>(10, 0));
  EXPECT_TRUE(PartOfProduct(2, {0, 9}, {3, 3}).empty());
}

// Sums of so few, so small integers are exact in f32.
TEST(ProductElementsTest, AreSmallIntegersOfBothSigns) {
  float least = 0;
  float most = 0;
  for (std::int64_t k = 0; k < 200; ++k) {
    for (std::int64_t j = 0; j < 200; ++j) {
      for (const float element : {ProductX(j, k), ProductW(k, j)}) {
        ASSERT_EQ(element, std::floor(element));
        least = std::min(least, element);
        most = std::max(most, element);
      }
    }
  }
  EXPECT_EQ(least, -9);
  EXPECT_EQ(most, 9);
}

TEST(ProductsTextTest, ShowsTheLongerShard) {
  const std::vector<ProductFigures> products = {
      {ShardDim::kColumn,
       13,
       131,
       197,
       {{0, 65}, {65, 130}, {130, 197}},
       0.0001,
       0},
      {ShardDim::kRow, 13, 131, 197, {{0, 131}}, 0.00005, 2}};
  EXPECT_EQ(
      ProductsText(products),
      "  W is cut by  X         W          a rank has              then      "
      "      time  wrong\n"
      "  columns      13 x 131  131 x 197  65, and 67 on the last  all-gather"
      "    100 us      0\n"
      "  rows         13 x 131  131 x 197  131                     all-reduce"
      "   50.0 us      2\n");
}

}  // namespace
}  // namespace shoal::ring_demo
