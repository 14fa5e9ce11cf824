// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/plan_proto_conversion.h"

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/attention_shard.h"
#include "shoal/partition/block_shard.h"
#include "shoal/partition/layer_parallel_plan.h"
#include "shoal/partition/layer_split.h"
#include "shoal/partition/partition.pb.h"
#include "shoal/partition/pipeline_partition.h"
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

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr ScheduleKind kKinds[] = {ScheduleKind::kForwardOnly,
                                   ScheduleKind::kGPipe,
                                   ScheduleKind::kOneForwardOneBackward};

template <typename... Words>
auto Refused(const Words&... words) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr(words)...));
}

// The plan, its message, the message's bytes, and all the way back. Then the
// message with each of its singular fields missing, which must be refused with
// the field's name.
template <typename Plan>
void ExpectRoundTrip(const Plan& plan) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const auto proto, ToProto(plan));
  std::remove_const_t<decltype(proto)> parsed;
  ASSERT_TRUE(parsed.ParseFromString(proto.SerializeAsString()));
  EXPECT_THAT(FromProto(parsed), IsOkAndHolds(plan));

  const google::protobuf::Descriptor& descriptor = *proto.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *descriptor.field(i);
    if (field.is_repeated()) continue;
    auto incomplete = proto;
    incomplete.GetReflection()->ClearField(&incomplete, &field);
    EXPECT_THAT(FromProto(incomplete),
                Refused(std::string(descriptor.name()) + ": field \"" +
                        std::string(field.name()) + "\" is missing"));
  }
}

// The same for the result of a Create that must be OK.
template <typename Plan>
void ExpectRoundTrip(const absl::StatusOr<Plan>& plan) {
  SHOAL_ASSERT_OK(plan);
  ExpectRoundTrip(*plan);
}

TEST(PlanProtoConversionTest, EveryPlanComesBackAsItWas) {
  ExpectRoundTrip(Range{0, 0});
  ExpectRoundTrip(Range{3, kMaxInt64});
  for (int world = 1; world <= 8; ++world) {
    ExpectRoundTrip(TensorParallelConfig::Create(world));
    for (int rank = 0; rank < world; ++rank) {
      for (const ShardDim dim : {ShardDim::kColumn, ShardDim::kRow}) {
        ExpectRoundTrip(TensorShard::Create(rank, world, dim, {0, kMaxInt64}));
        ExpectRoundTrip(TensorShard::Create(rank, world, dim, {61, 7}));
      }
      ExpectRoundTrip(AttentionShard::Create(8 * world, world, rank, world));
      ExpectRoundTrip(AttentionShard::Create(8 * world, 1, rank, world));
      ExpectRoundTrip(BlockShard::Create(320, 32, rank, world));
      ExpectRoundTrip(VocabShard::Create(101, 16, rank, world));
    }
    for (const int64_t layers : {0, 1, 7, 61}) {
      ExpectRoundTrip(LayerSplit::Even(layers, world));
    }
    for (const ScheduleKind kind : kKinds) {
      for (const int micro_batches : {1, 2, 7}) {
        ExpectRoundTrip(MakePipelineSchedule(kind, world, micro_batches));
      }
    }
  }
  ExpectRoundTrip(RankGrid::Create(2, 3, 5));
  ExpectRoundTrip(GridCoordinates{1, 2, 4});
  ExpectRoundTrip(GridCoordinates{});
  ExpectRoundTrip(LayerParallelPlan("mlp.gate_proj", ShardDim::kColumn));
  ExpectRoundTrip(LayerParallelPlan("schicht.\xC3\xA4", ShardDim::kRow)
                      .WithGroup(std::numeric_limits<int>::max()));
  ExpectRoundTrip(std::vector<LayerParallelPlan>{});
  ExpectRoundTrip(std::vector<LayerParallelPlan>{
      LayerParallelPlan("q_proj", ShardDim::kColumn),
      LayerParallelPlan("o_proj", ShardDim::kRow).WithGroup(1)});
}

TEST(PlanProtoConversionTest, EnumeratorsComeBackAsTheyWere) {
  for (const BlockRole role : {BlockRole::kSingle, BlockRole::kFirst,
                               BlockRole::kMiddle, BlockRole::kLast}) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const BlockRoleProto proto, ToProto(role));
    EXPECT_THAT(FromProto(proto), IsOkAndHolds(role));
    // The names agree, too: BLOCK_ROLE_FIRST is "first".
    EXPECT_THAT(
        BlockRoleProto_Name(proto),
        testing::StrCaseEq("BLOCK_ROLE_" + std::string(BlockRoleName(role))));
  }
  for (const ShardDim dim : {ShardDim::kColumn, ShardDim::kRow}) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const ShardDimProto proto, ToProto(dim));
    EXPECT_THAT(FromProto(proto), IsOkAndHolds(dim));
    EXPECT_THAT(
        ShardDimProto_Name(proto),
        testing::StrCaseEq("SHARD_DIM_" + std::string(ShardDimName(dim))));
  }
}

TEST(PlanProtoConversionTest, RefusesUnknownEnumerators) {
  EXPECT_THAT(ToProto(static_cast<BlockRole>(7)), Refused("BlockRole: 7"));
  EXPECT_THAT(ToProto(static_cast<ShardDim>(7)), Refused("ShardDim: 7"));
  for (const int number : {0, -1, 7}) {
    EXPECT_THAT(FromProto(static_cast<BlockRoleProto>(number)),
                Refused("BlockRoleProto: " + std::to_string(number)));
    EXPECT_THAT(FromProto(static_cast<ShardDimProto>(number)),
                Refused("ShardDimProto: " + std::to_string(number)));
  }
}

TEST(PlanProtoConversionTest, RefusesPlansThatAreNotValid) {
  EXPECT_THAT(ToProto(Range{4, 3}), Refused("[4, 3)"));
  EXPECT_THAT(ToProto(GridCoordinates{0, -1, 0}),
              Refused("data must be >= 0, got -1"));
  EXPECT_THAT(ToProto(LayerParallelPlan("", ShardDim::kRow)),
              Refused("needs a name"));
  EXPECT_THAT(ToProto(LayerParallelPlan("a\xFF", ShardDim::kRow)),
              Refused("a\\xff", "not UTF-8"));
  EXPECT_THAT(ToProto(LayerParallelPlan("a", static_cast<ShardDim>(3))),
              Refused("strategy"));
  EXPECT_THAT(ToProto(std::vector<LayerParallelPlan>{
                  LayerParallelPlan("a", ShardDim::kRow),
                  LayerParallelPlan("b", ShardDim::kRow).WithGroup(-1)}),
              Refused("\"b\"", "group_id must be >= 0, got -1"));
  EXPECT_THAT(ToProto(PipelineSchedule()), Refused("num_stages must be > 0"));
}

TEST(PlanProtoConversionTest, RefusesMessagesOfImpossiblePlans) {
  RangeProto range;
  range.set_begin(4);
  range.set_end(3);
  EXPECT_THAT(FromProto(range), Refused("[4, 3)"));

  SHOAL_ASSERT_OK_AND_ASSIGN(const TensorShard shard,
                             TensorShard::Create(1, 2, ShardDim::kRow, {4, 4}));
  SHOAL_ASSERT_OK_AND_ASSIGN(TensorShardProto shard_proto, ToProto(shard));
  shard_proto.set_rank(2);
  EXPECT_THAT(FromProto(shard_proto),
              Refused("rank 2 out of range for world 2"));
  shard_proto.set_dim(SHARD_DIM_UNSPECIFIED);
  EXPECT_THAT(FromProto(shard_proto),
              Refused("TensorShardProto: field \"dim\" has the value 0"));

  TensorParallelConfigProto config;
  config.set_world_size(0);
  EXPECT_THAT(FromProto(config), Refused("world_size must be > 0, got 0"));

  LayerParallelPlanProto layer;
  layer.set_name("");
  layer.set_strategy(SHARD_DIM_ROW);
  layer.set_group_id(0);
  EXPECT_THAT(FromProto(layer), Refused("needs a name"));
  layer.set_name("q_proj");
  layer.set_group_id(-1);
  EXPECT_THAT(FromProto(layer), Refused("q_proj", "got -1"));
  LayerParallelPlanListProto list;
  *list.add_layers() = layer;
  EXPECT_THAT(FromProto(list), Refused("q_proj", "got -1"));

  RankGridProto grid;
  grid.set_tensor_size(1 << 16);
  grid.set_data_size(1 << 16);
  grid.set_pipeline_size(1);
  EXPECT_THAT(FromProto(grid), StatusIs(absl::StatusCode::kOutOfRange));

  GridCoordinatesProto coordinates;
  coordinates.set_tensor(0);
  coordinates.set_data(0);
  coordinates.set_pipeline(-3);
  EXPECT_THAT(FromProto(coordinates), Refused("pipeline must be >= 0, got -3"));

  AttentionShardProto attention;
  attention.set_num_heads(6);
  attention.set_num_kv_heads(6);
  attention.set_rank(0);
  attention.set_world_size(4);
  EXPECT_THAT(FromProto(attention),
              Refused("heads (6) not divisible by tensor-parallel size (4)"));

  BlockShardProto block;
  block.set_full_size(100);
  block.set_block_size(32);
  block.set_rank(0);
  block.set_world_size(2);
  EXPECT_THAT(FromProto(block), Refused("not divisible by block_size (32)"));

  VocabShardProto vocab;
  vocab.set_vocab_size(-1);
  vocab.set_pad_to(1);
  vocab.set_rank(0);
  vocab.set_world_size(2);
  EXPECT_THAT(FromProto(vocab), Refused("vocab_size must be > 0, got -1"));

  LayerSplitProto split;
  split.set_num_layers(8);
  EXPECT_THAT(FromProto(split), Refused("world_size must be > 0"));
  split.add_layer_counts(3);
  split.add_layer_counts(4);
  EXPECT_THAT(FromProto(split), Refused("3,4 sum to 7", "8 layers"));
}

TEST(PlanProtoConversionTest, RefusesMessagesOfImpossibleSchedules) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const PipelineSchedule schedule,
                             MakePipelineSchedule(ScheduleKind::kGPipe, 2, 2));
  SHOAL_ASSERT_OK_AND_ASSIGN(const PipelineScheduleProto valid,
                             ToProto(schedule));

  PipelineScheduleProto proto = valid;
  proto.mutable_stages(1)->mutable_passes(0)->set_step(0);
  EXPECT_THAT(FromProto(proto), Refused("needs its forward on stage 0"));

  proto = valid;
  proto.mutable_stages()->RemoveLast();
  EXPECT_FALSE(FromProto(proto).ok());

  proto = valid;
  proto.mutable_stages(0)->mutable_passes(1)->clear_micro_batch();
  EXPECT_THAT(FromProto(proto),
              Refused("ScheduledPassProto: field \"micro_batch\" is missing"));

  proto = valid;
  proto.mutable_stages(0)->mutable_passes(1)->set_direction(
      PASS_DIRECTION_UNSPECIFIED);
  EXPECT_THAT(FromProto(proto), Refused("field \"direction\""));

  proto = valid;
  proto.set_kind(static_cast<ScheduleKindProto>(12));
  EXPECT_THAT(FromProto(proto), Refused("field \"kind\" has the value 12"));

  proto = valid;
  proto.set_num_micro_batches(std::numeric_limits<int>::max());
  EXPECT_THAT(FromProto(proto), Refused("has 4 passes"));
}

}  // namespace
}  // namespace shoal
