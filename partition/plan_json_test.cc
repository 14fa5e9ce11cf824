// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/plan_json.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/attention_shard.h"
#include "shoal/partition/block_shard.h"
#include "shoal/partition/layer_parallel_plan.h"
#include "shoal/partition/layer_split.h"
#include "shoal/partition/pipeline_schedule.h"
#include "shoal/partition/range.h"
#include "shoal/partition/rank_grid.h"
#include "shoal/partition/tensor_parallel_config.h"
#include "shoal/partition/tensor_shard.h"
#include "shoal/partition/vocab_shard.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename... Words>
auto Refused(const Words&... words) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr(words)...));
}

template <typename Plan>
void ExpectRoundTrip(const Plan& plan) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const std::string json, PlanToJson(plan));
  EXPECT_THAT(PlanFromJson<Plan>(json), IsOkAndHolds(plan)) << json;
}

template <typename Plan>
void ExpectRoundTrip(const absl::StatusOr<Plan>& plan) {
  SHOAL_ASSERT_OK(plan);
  ExpectRoundTrip(*plan);
}

TEST(PlanJsonTest, EveryPlanComesBackAsItWas) {
  ExpectRoundTrip(Range{0, 28});
  ExpectRoundTrip(TensorShard::Create(0, 2, ShardDim::kColumn, {0, 4096}));
  ExpectRoundTrip(TensorParallelConfig::Create(4));
  ExpectRoundTrip(
      LayerParallelPlan("a \"quoted\" \xC3\xA4", ShardDim::kRow).WithGroup(1));
  ExpectRoundTrip(std::vector<LayerParallelPlan>{
      LayerParallelPlan("q_proj", ShardDim::kColumn),
      LayerParallelPlan("o_proj", ShardDim::kRow)});
  ExpectRoundTrip(RankGrid::Create(2, 1, 4));
  ExpectRoundTrip(GridCoordinates{1, 0, 3});
  ExpectRoundTrip(AttentionShard::Create(32, 8, 1, 4));
  ExpectRoundTrip(BlockShard::Create(11008, 256, 3, 4));
  ExpectRoundTrip(VocabShard::Create(50257, 128, 7, 8));
  ExpectRoundTrip(LayerSplit::Parse(32, 4, "8,8,10,6"));
  ExpectRoundTrip(
      MakePipelineSchedule(ScheduleKind::kOneForwardOneBackward, 3, 4));
}

TEST(PlanJsonTest, IsProtobufsMappingWithZerosWrittenOut) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const TensorShard shard,
      TensorShard::Create(0, 2, ShardDim::kRow, {4096, 0}));
  EXPECT_THAT(PlanToJson(shard), IsOkAndHolds(R"({
 "rank": 0,
 "worldSize": 2,
 "dim": "SHARD_DIM_ROW",
 "rows": "4096",
 "cols": "0"
}
)"));
}

TEST(PlanJsonTest, ReadsWhatAPersonWrites) {
  EXPECT_THAT(PlanFromJson<Range>(R"({"begin": 3, "end": "6"})"),
              IsOkAndHolds(Range{3, 6}));
  SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit split,
                             LayerSplit::FromCounts(5, {2, 3}));
  EXPECT_THAT(
      PlanFromJson<LayerSplit>(R"({"num_layers": 5, "layer_counts": [2, 3]})"),
      IsOkAndHolds(split));
}

TEST(PlanJsonTest, RefusesWhatIsNotJsonOrNotThePlan) {
  for (const absl::string_view json :
       {"", "{", "nonsense", "[]", "7", "{\"begin\": 3, \"end\": 6} trailing",
        "{\"begin\": \"three\", \"end\": 6}", "{\"begin\": 3.5, \"end\": 6}",
        "{\"begin\": 3, \"end\": 99999999999999999999}",
        "{\"begin\": 3, \"end\": 6, \"step\": 1}", "{\"begin\": {}}"}) {
    EXPECT_THAT(PlanFromJson<Range>(json), Refused("JSON of RangeProto"))
        << json;
  }
  EXPECT_THAT(PlanFromJson<Range>("{\"begin\": 3}"),
              Refused("RangeProto: field \"end\" is missing"));
  EXPECT_THAT(PlanFromJson<Range>("{\"begin\": 3, \"end\": null}"),
              Refused("RangeProto: field \"end\" is missing"));
  EXPECT_THAT(PlanFromJson<Range>("{\"begin\": 6, \"end\": 3}"),
              Refused("[6, 3)"));
  EXPECT_THAT(PlanFromJson<TensorShard>(
                  R"({"rank": 0, "worldSize": 2, "dim": "SHARD_DIM_DIAGONAL",
                      "rows": 1, "cols": 1})"),
              Refused("TensorShardProto"));
}

TEST(PlanJsonTest, RefusesPlansThatAreNotValid) {
  EXPECT_THAT(PlanToJson(Range{6, 3}), Refused("[6, 3)"));
  EXPECT_THAT(PlanToJson(LayerParallelPlan("\xFF", ShardDim::kRow)),
              Refused("not UTF-8"));
}

}  // namespace
}  // namespace shoal
