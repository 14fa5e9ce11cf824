// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/plan_proto_conversion.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/attention_shard.h"
#include "shoal/partition/block_shard.h"
#include "shoal/partition/layer_parallel_plan.h"
#include "shoal/partition/layer_split.h"
#include "shoal/partition/partition.pb.h"
#include "shoal/partition/pipeline_partition.h"
#include "shoal/partition/pipeline_schedule.h"
#include "shoal/partition/pipeline_schedule_verifier.h"
#include "shoal/partition/proto_presence.h"
#include "shoal/partition/range.h"
#include "shoal/partition/rank_grid.h"
#include "shoal/partition/tensor_parallel_config.h"
#include "shoal/partition/tensor_shard.h"
#include "shoal/partition/utf8.h"
#include "shoal/partition/vocab_shard.h"

namespace shoal {
namespace {

// The error for a number that is no enumerator of `type`.
absl::Status UnknownEnumerator(absl::string_view type, int number) {
  return absl::InvalidArgumentError(
      absl::StrCat(type, ": ", number, " is none of its enumerators"));
}

absl::Status CheckCoordinates(const GridCoordinates& coordinates) {
  constexpr absl::string_view kCaller = "GridCoordinates";
  SHOAL_RETURN_IF_ERROR(
      internal::CheckNotNegative(kCaller, "tensor", coordinates.tensor));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckNotNegative(kCaller, "data", coordinates.data));
  return internal::CheckNotNegative(kCaller, "pipeline", coordinates.pipeline);
}

// The functions below are for enumerators that their callers have checked.

ScheduleKindProto KindToProto(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kForwardOnly:
      return SCHEDULE_KIND_FORWARD_ONLY;
    case ScheduleKind::kGPipe:
      return SCHEDULE_KIND_GPIPE;
    case ScheduleKind::kOneForwardOneBackward:
      return SCHEDULE_KIND_ONE_FORWARD_ONE_BACKWARD;
  }
  return SCHEDULE_KIND_UNSPECIFIED;
}

ScheduleKind KindFromProto(ScheduleKindProto proto) {
  switch (proto) {
    case SCHEDULE_KIND_GPIPE:
      return ScheduleKind::kGPipe;
    case SCHEDULE_KIND_ONE_FORWARD_ONE_BACKWARD:
      return ScheduleKind::kOneForwardOneBackward;
    default:
      return ScheduleKind::kForwardOnly;
  }
}

PassDirectionProto DirectionToProto(PassDirection direction) {
  return direction == PassDirection::kForward ? PASS_DIRECTION_FORWARD
                                              : PASS_DIRECTION_BACKWARD;
}

PassDirection DirectionFromProto(PassDirectionProto proto) {
  return proto == PASS_DIRECTION_FORWARD ? PassDirection::kForward
                                         : PassDirection::kBackward;
}

}  // namespace

absl::StatusOr<RangeProto> ToProto(const Range& range) {
  SHOAL_RETURN_IF_ERROR(range.Validate());
  RangeProto proto;
  proto.set_begin(range.begin);
  proto.set_end(range.end);
  return proto;
}

absl::StatusOr<Range> FromProto(const RangeProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  const Range range = {proto.begin(), proto.end()};
  SHOAL_RETURN_IF_ERROR(range.Validate());
  return range;
}

absl::StatusOr<BlockRoleProto> ToProto(BlockRole role) {
  switch (role) {
    case BlockRole::kSingle:
      return BLOCK_ROLE_SINGLE;
    case BlockRole::kFirst:
      return BLOCK_ROLE_FIRST;
    case BlockRole::kMiddle:
      return BLOCK_ROLE_MIDDLE;
    case BlockRole::kLast:
      return BLOCK_ROLE_LAST;
  }
  return UnknownEnumerator("BlockRole", static_cast<int>(role));
}

absl::StatusOr<BlockRole> FromProto(BlockRoleProto proto) {
  switch (proto) {
    case BLOCK_ROLE_SINGLE:
      return BlockRole::kSingle;
    case BLOCK_ROLE_FIRST:
      return BlockRole::kFirst;
    case BLOCK_ROLE_MIDDLE:
      return BlockRole::kMiddle;
    case BLOCK_ROLE_LAST:
      return BlockRole::kLast;
    default:
      return UnknownEnumerator("BlockRoleProto", proto);
  }
}

absl::StatusOr<ShardDimProto> ToProto(ShardDim dim) {
  switch (dim) {
    case ShardDim::kColumn:
      return SHARD_DIM_COLUMN;
    case ShardDim::kRow:
      return SHARD_DIM_ROW;
  }
  return UnknownEnumerator("ShardDim", static_cast<int>(dim));
}

absl::StatusOr<ShardDim> FromProto(ShardDimProto proto) {
  switch (proto) {
    case SHARD_DIM_COLUMN:
      return ShardDim::kColumn;
    case SHARD_DIM_ROW:
      return ShardDim::kRow;
    default:
      return UnknownEnumerator("ShardDimProto", proto);
  }
}

absl::StatusOr<TensorShardProto> ToProto(const TensorShard& shard) {
  SHOAL_ASSIGN_OR_RETURN(const ShardDimProto dim, ToProto(shard.dim()));
  TensorShardProto proto;
  proto.set_rank(shard.rank());
  proto.set_world_size(shard.world_size());
  proto.set_dim(dim);
  proto.set_rows(shard.original_shape()[0]);
  proto.set_cols(shard.original_shape()[1]);
  return proto;
}

absl::StatusOr<TensorShard> FromProto(const TensorShardProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  SHOAL_ASSIGN_OR_RETURN(const ShardDim dim, FromProto(proto.dim()));
  return TensorShard::Create(proto.rank(), proto.world_size(), dim,
                             {proto.rows(), proto.cols()});
}

absl::StatusOr<TensorParallelConfigProto> ToProto(
    const TensorParallelConfig& config) {
  TensorParallelConfigProto proto;
  proto.set_world_size(config.world_size());
  return proto;
}

absl::StatusOr<TensorParallelConfig> FromProto(
    const TensorParallelConfigProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  return TensorParallelConfig::Create(proto.world_size());
}

absl::StatusOr<LayerParallelPlanProto> ToProto(const LayerParallelPlan& plan) {
  SHOAL_RETURN_IF_ERROR(plan.Validate());
  if (!internal::IsUtf8(plan.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LayerParallelPlan: the name \"", absl::CHexEscape(plan.name),
        "\" is not UTF-8, as a protobuf string must be"));
  }
  SHOAL_ASSIGN_OR_RETURN(const ShardDimProto strategy, ToProto(plan.strategy));
  LayerParallelPlanProto proto;
  proto.set_name(plan.name);
  proto.set_strategy(strategy);
  proto.set_group_id(plan.group_id);
  return proto;
}

absl::StatusOr<LayerParallelPlan> FromProto(
    const LayerParallelPlanProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  SHOAL_ASSIGN_OR_RETURN(const ShardDim strategy, FromProto(proto.strategy()));
  LayerParallelPlan plan =
      LayerParallelPlan(proto.name(), strategy).WithGroup(proto.group_id());
  SHOAL_RETURN_IF_ERROR(plan.Validate());
  return plan;
}

absl::StatusOr<LayerParallelPlanListProto> ToProto(
    absl::Span<const LayerParallelPlan> plans) {
  LayerParallelPlanListProto proto;
  for (const LayerParallelPlan& plan : plans) {
    SHOAL_ASSIGN_OR_RETURN(*proto.add_layers(), ToProto(plan));
  }
  return proto;
}

absl::StatusOr<std::vector<LayerParallelPlan>> FromProto(
    const LayerParallelPlanListProto& proto) {
  std::vector<LayerParallelPlan> plans;
  plans.reserve(proto.layers_size());
  for (const LayerParallelPlanProto& layer : proto.layers()) {
    SHOAL_ASSIGN_OR_RETURN(LayerParallelPlan plan, FromProto(layer));
    plans.push_back(std::move(plan));
  }
  return plans;
}

absl::StatusOr<RankGridProto> ToProto(const RankGrid& grid) {
  RankGridProto proto;
  proto.set_tensor_size(grid.tensor_size());
  proto.set_data_size(grid.data_size());
  proto.set_pipeline_size(grid.pipeline_size());
  return proto;
}

absl::StatusOr<RankGrid> FromProto(const RankGridProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  return RankGrid::Create(proto.tensor_size(), proto.data_size(),
                          proto.pipeline_size());
}

absl::StatusOr<GridCoordinatesProto> ToProto(
    const GridCoordinates& coordinates) {
  SHOAL_RETURN_IF_ERROR(CheckCoordinates(coordinates));
  GridCoordinatesProto proto;
  proto.set_tensor(coordinates.tensor);
  proto.set_data(coordinates.data);
  proto.set_pipeline(coordinates.pipeline);
  return proto;
}

absl::StatusOr<GridCoordinates> FromProto(const GridCoordinatesProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  const GridCoordinates coordinates = {.tensor = proto.tensor(),
                                       .data = proto.data(),
                                       .pipeline = proto.pipeline()};
  SHOAL_RETURN_IF_ERROR(CheckCoordinates(coordinates));
  return coordinates;
}

absl::StatusOr<AttentionShardProto> ToProto(const AttentionShard& shard) {
  AttentionShardProto proto;
  proto.set_num_heads(shard.num_heads());
  proto.set_num_kv_heads(shard.num_kv_heads());
  proto.set_rank(shard.rank());
  proto.set_world_size(shard.world_size());
  return proto;
}

absl::StatusOr<AttentionShard> FromProto(const AttentionShardProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  return AttentionShard::Create(proto.num_heads(), proto.num_kv_heads(),
                                proto.rank(), proto.world_size());
}

absl::StatusOr<BlockShardProto> ToProto(const BlockShard& shard) {
  BlockShardProto proto;
  proto.set_full_size(shard.full_size());
  proto.set_block_size(shard.block_size());
  proto.set_rank(shard.rank());
  proto.set_world_size(shard.world_size());
  return proto;
}

absl::StatusOr<BlockShard> FromProto(const BlockShardProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  return BlockShard::Create(proto.full_size(), proto.block_size(), proto.rank(),
                            proto.world_size());
}

absl::StatusOr<VocabShardProto> ToProto(const VocabShard& shard) {
  VocabShardProto proto;
  proto.set_vocab_size(shard.vocab_size());
  proto.set_pad_to(shard.pad_to());
  proto.set_rank(shard.rank());
  proto.set_world_size(shard.world_size());
  return proto;
}

absl::StatusOr<VocabShard> FromProto(const VocabShardProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  return VocabShard::Create(proto.vocab_size(), proto.pad_to(), proto.rank(),
                            proto.world_size());
}

absl::StatusOr<LayerSplitProto> ToProto(const LayerSplit& split) {
  LayerSplitProto proto;
  proto.set_num_layers(split.num_layers());
  for (const int64_t count : split.counts()) proto.add_layer_counts(count);
  return proto;
}

absl::StatusOr<LayerSplit> FromProto(const LayerSplitProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  const std::vector<int64_t> counts(proto.layer_counts().begin(),
                                    proto.layer_counts().end());
  return LayerSplit::FromCounts(proto.num_layers(), counts);
}

absl::StatusOr<PipelineScheduleProto> ToProto(
    const PipelineSchedule& schedule) {
  SHOAL_RETURN_IF_ERROR(VerifyPipelineSchedule(schedule));
  PipelineScheduleProto proto;
  proto.set_kind(KindToProto(schedule.kind));
  proto.set_num_micro_batches(schedule.num_micro_batches);
  for (const std::vector<ScheduledPass>& passes : schedule.stages) {
    PipelineScheduleProto::Stage& stage = *proto.add_stages();
    for (const ScheduledPass& pass : passes) {
      ScheduledPassProto& pass_proto = *stage.add_passes();
      pass_proto.set_step(pass.step);
      pass_proto.set_direction(DirectionToProto(pass.direction));
      pass_proto.set_micro_batch(pass.micro_batch);
    }
  }
  return proto;
}

absl::StatusOr<PipelineSchedule> FromProto(const PipelineScheduleProto& proto) {
  SHOAL_RETURN_IF_ERROR(internal::CheckAllFieldsPresent(proto));
  PipelineSchedule schedule;
  schedule.kind = KindFromProto(proto.kind());
  schedule.num_micro_batches = proto.num_micro_batches();
  for (const PipelineScheduleProto::Stage& stage : proto.stages()) {
    std::vector<ScheduledPass>& passes = schedule.stages.emplace_back();
    passes.reserve(stage.passes_size());
    for (const ScheduledPassProto& pass : stage.passes()) {
      passes.push_back({.step = pass.step(),
                        .direction = DirectionFromProto(pass.direction()),
                        .micro_batch = pass.micro_batch()});
    }
  }
  SHOAL_RETURN_IF_ERROR(VerifyPipelineSchedule(schedule));
  return schedule;
}

}  // namespace shoal
