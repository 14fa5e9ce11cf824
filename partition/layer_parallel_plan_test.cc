// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/layer_parallel_plan.h"

#include <sstream>

#include "absl/hash/hash_testing.h"
#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/tensor_shard.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(LayerParallelPlanTest, LayerParallelPlan) {
  const LayerParallelPlan plan =
      LayerParallelPlan("mlp.gate_proj", ShardDim::kColumn).WithGroup(1);
  EXPECT_EQ(plan.name, "mlp.gate_proj");
  EXPECT_EQ(plan.strategy, ShardDim::kColumn);
  EXPECT_EQ(plan.group_id, 1);
  SHOAL_EXPECT_OK(plan.Validate());
}

TEST(LayerParallelPlanTest, GroupIsZeroUnlessSaid) {
  const LayerParallelPlan plan("mlp.down_proj", ShardDim::kRow);
  EXPECT_EQ(plan.group_id, 0);
  EXPECT_EQ(plan.WithGroup(3).group_id, 3);
  EXPECT_EQ(plan.group_id, 0);  // WithGroup leaves its object alone.
}

TEST(LayerParallelPlanTest, RefusesWhatNoLoaderCanUse) {
  EXPECT_THAT(
      LayerParallelPlan("", ShardDim::kRow).Validate(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs a name")));
  EXPECT_THAT(
      LayerParallelPlan("q_proj", ShardDim::kRow).WithGroup(-1).Validate(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("q_proj"),
                     HasSubstr("group_id must be >= 0, got -1"))));
  EXPECT_THAT(
      LayerParallelPlan("q_proj", static_cast<ShardDim>(4)).Validate(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("q_proj"),
                     HasSubstr("strategy must be kColumn or kRow, got 4"))));
}

TEST(LayerParallelPlanTest, IsReadableComparableAndHashable) {
  const LayerParallelPlan plan("q_proj", ShardDim::kColumn);
  std::ostringstream stream;
  stream << plan.WithGroup(2);
  EXPECT_EQ(stream.str(), "q_proj: column, group 2");

  EXPECT_EQ(plan, LayerParallelPlan("q_proj", ShardDim::kColumn));
  EXPECT_NE(plan, LayerParallelPlan("k_proj", ShardDim::kColumn));
  EXPECT_NE(plan, LayerParallelPlan("q_proj", ShardDim::kRow));
  EXPECT_NE(plan, plan.WithGroup(1));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {plan, plan.WithGroup(1), LayerParallelPlan("q_proj", ShardDim::kRow),
       LayerParallelPlan("k_proj", ShardDim::kColumn)}));
}

}  // namespace
}  // namespace shoal
