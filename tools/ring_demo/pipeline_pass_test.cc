// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/pipeline_pass.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/partition/range.h"

namespace shoal::ring_demo {
namespace {

std::vector<float> Embedded(std::int64_t micro_batch) {
  std::vector<float> activations(1000);
  for (std::int64_t i = 0; i < 1000; ++i) {
    activations[i] = EmbeddedActivation(micro_batch, i);
  }
  return activations;
}

TEST(ApplyLayerTest, IsExactAndStaysInBounds) {
  EXPECT_EQ(ApplyLayer(0, 0), 1);
  EXPECT_EQ(ApplyLayer(4, 10), 25);
  EXPECT_EQ(ApplyLayer(0, 8190), 8190);
  EXPECT_EQ(ApplyLayer(1, 8190), 0);
  float activation = 8190;
  for (std::int64_t layer = 0; layer < 100'000; ++layer) {
    activation = ApplyLayer(layer, activation);
    ASSERT_GE(activation, 0);
    ASSERT_LT(activation, 8191);
  }
}

TEST(ApplyLayersTest, BlocksInOrderAreTheWhole) {
  std::vector<float> whole = Embedded(1);
  ApplyLayers({0, 10}, absl::MakeSpan(whole));
  std::vector<float> blocks = Embedded(1);
  ApplyLayers({0, 3}, absl::MakeSpan(blocks));
  ApplyLayers({3, 3}, absl::MakeSpan(blocks));
  ApplyLayers({3, 10}, absl::MakeSpan(blocks));
  EXPECT_EQ(blocks, whole);
}

// Otherwise the demonstration would prove nothing.
TEST(ApplyLayersTest, OrderOmissionAndRepetitionMatter) {
  std::vector<float> whole = Embedded(2);
  ApplyLayers({0, 4}, absl::MakeSpan(whole));
  const std::vector<std::vector<Range>> wrongs = {
      {{2, 4}, {0, 2}}, {{0, 3}}, {{1, 4}}, {{0, 2}, {1, 4}}, {{0, 5}}, {}};
  for (const std::vector<Range>& wrong : wrongs) {
    std::vector<float> other = Embedded(2);
    for (const Range& block : wrong) ApplyLayers(block, absl::MakeSpan(other));
    for (std::size_t i = 0; i < other.size(); ++i) {
      ASSERT_NE(other[i], whole[i]);
    }
  }
  EXPECT_NE(Embedded(0), Embedded(1));
}

TEST(PipelineTextTest, FollowsTheFlow) {
  PipelineFigures figures;
  figures.micro_batches = 4;
  figures.tokens = 8;
  figures.hidden = 512;
  figures.seconds = 0.0012;
  figures.stages = {{2, {0, 1}, 0, 4, 65536},
                    {1, {1, 2}, 65536, 4, 65536},
                    {0, {2, 2}, 65536, 0, 0}};
  EXPECT_EQ(
      PipelineText(figures),
      "  4 micro-batches of 8 x 512 f32 (16 KiB) in 1.20 ms, 0 wrong "
      "elements\n"
      "  rank  from      received     layers  applied       sent  to\n"
      "     2  tokens           -          0        4     64 KiB  rank 1\n"
      "     1  rank 2      64 KiB          1        4     64 KiB  rank 0\n"
      "     0  rank 1      64 KiB       none        0          -  head\n");
}

}  // namespace
}  // namespace shoal::ring_demo
