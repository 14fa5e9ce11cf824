// SPDX-License-Identifier: Apache-2.0
//
// Conversion between the plans of package partition and their protobuf messages
// (partition.proto), checked both ways.
//
//   ToProto    kInvalidArgument for a plan that breaks the rules of its type,
//              which only a plain struct can do, or a name that is not UTF-8.
//   FromProto  kInvalidArgument for a message in which a field is missing or an
//              enumerator is unknown, naming the message and the field; else
//              the error of the type's own Create or Validate, so that what
//              comes back is as good as what the program makes itself.
//
// FromProto(*ToProto(plan)) == plan for every valid plan. Pure functions, safe
// from any thread.
#ifndef SHOAL_PARTITION_PLAN_PROTO_CONVERSION_H_
#define SHOAL_PARTITION_PLAN_PROTO_CONVERSION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
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

absl::StatusOr<RangeProto> ToProto(const Range& range);
absl::StatusOr<Range> FromProto(const RangeProto& proto);

absl::StatusOr<BlockRoleProto> ToProto(BlockRole role);
absl::StatusOr<BlockRole> FromProto(BlockRoleProto proto);

absl::StatusOr<ShardDimProto> ToProto(ShardDim dim);
absl::StatusOr<ShardDim> FromProto(ShardDimProto proto);

absl::StatusOr<TensorShardProto> ToProto(const TensorShard& shard);
absl::StatusOr<TensorShard> FromProto(const TensorShardProto& proto);

absl::StatusOr<TensorParallelConfigProto> ToProto(
    const TensorParallelConfig& config);
absl::StatusOr<TensorParallelConfig> FromProto(
    const TensorParallelConfigProto& proto);

absl::StatusOr<LayerParallelPlanProto> ToProto(const LayerParallelPlan& plan);
absl::StatusOr<LayerParallelPlan> FromProto(
    const LayerParallelPlanProto& proto);

absl::StatusOr<LayerParallelPlanListProto> ToProto(
    absl::Span<const LayerParallelPlan> plans);
absl::StatusOr<std::vector<LayerParallelPlan>> FromProto(
    const LayerParallelPlanListProto& proto);

absl::StatusOr<RankGridProto> ToProto(const RankGrid& grid);
absl::StatusOr<RankGrid> FromProto(const RankGridProto& proto);

// Whether coordinates lie in a grid is for RankGrid::Rank to say; here they
// must not be negative.
absl::StatusOr<GridCoordinatesProto> ToProto(
    const GridCoordinates& coordinates);
absl::StatusOr<GridCoordinates> FromProto(const GridCoordinatesProto& proto);

absl::StatusOr<AttentionShardProto> ToProto(const AttentionShard& shard);
absl::StatusOr<AttentionShard> FromProto(const AttentionShardProto& proto);

absl::StatusOr<BlockShardProto> ToProto(const BlockShard& shard);
absl::StatusOr<BlockShard> FromProto(const BlockShardProto& proto);

absl::StatusOr<VocabShardProto> ToProto(const VocabShard& shard);
absl::StatusOr<VocabShard> FromProto(const VocabShardProto& proto);

absl::StatusOr<LayerSplitProto> ToProto(const LayerSplit& split);
absl::StatusOr<LayerSplit> FromProto(const LayerSplitProto& proto);

// Both ways hold the schedule against VerifyPipelineSchedule.
absl::StatusOr<PipelineScheduleProto> ToProto(const PipelineSchedule& schedule);
absl::StatusOr<PipelineSchedule> FromProto(const PipelineScheduleProto& proto);

}  // namespace shoal

#endif  // SHOAL_PARTITION_PLAN_PROTO_CONVERSION_H_
