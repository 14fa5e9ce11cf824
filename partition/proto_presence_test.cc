// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/proto_presence.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/partition.pb.h"

namespace shoal::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TensorShardProto CompleteShard() {
  TensorShardProto proto;
  proto.set_rank(0);
  proto.set_world_size(0);
  proto.set_dim(SHARD_DIM_ROW);
  proto.set_rows(0);
  proto.set_cols(0);
  return proto;
}

TEST(ProtoPresenceTest, ZeroIsPresentAndUnsetIsMissing) {
  SHOAL_EXPECT_OK(CheckAllFieldsPresent(CompleteShard()));
  TensorShardProto proto = CompleteShard();
  proto.clear_rows();
  EXPECT_THAT(CheckAllFieldsPresent(proto),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "TensorShardProto: field \"rows\" is missing"));
}

TEST(ProtoPresenceTest, RefusesUnspecifiedAndUnknownEnumerators) {
  for (const int number : {0, 3, -1, 99}) {
    TensorShardProto proto = CompleteShard();
    proto.set_dim(static_cast<ShardDimProto>(number));
    EXPECT_THAT(CheckAllFieldsPresent(proto),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("TensorShardProto: field \"dim\""),
                               HasSubstr("which is no ShardDimProto"))))
        << number;
  }
}

TEST(ProtoPresenceTest, LooksIntoRepeatedMessages) {
  PipelineScheduleProto proto;
  proto.set_kind(SCHEDULE_KIND_GPIPE);
  proto.set_num_micro_batches(1);
  proto.add_stages();
  ScheduledPassProto& pass = *proto.add_stages()->add_passes();
  pass.set_step(0);
  pass.set_direction(PASS_DIRECTION_FORWARD);
  EXPECT_THAT(CheckAllFieldsPresent(proto),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "ScheduledPassProto: field \"micro_batch\" is missing"));
  pass.set_micro_batch(0);
  SHOAL_EXPECT_OK(CheckAllFieldsPresent(proto));
}

TEST(ProtoPresenceTest, RepeatedFieldsMayBeEmpty) {
  SHOAL_EXPECT_OK(CheckAllFieldsPresent(LayerParallelPlanListProto()));
  LayerSplitProto proto;
  proto.set_num_layers(0);
  SHOAL_EXPECT_OK(CheckAllFieldsPresent(proto));
}

}  // namespace
}  // namespace shoal::internal
