// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/pipeline.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/identity_communicator.h"
#include "shoal/comm/in_process_communicator.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

Buffer Of(std::vector<float>& values) {
  return BufferOf(absl::MakeSpan(values));
}

TEST(PipelineChannelTest, StagesRunAgainstTheRanks) {
  SHOAL_ASSERT_OK_AND_ASSIGN(auto world, InProcessCommunicator::CreateWorld(3));
  for (int rank = 0; rank < 3; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(PipelineChannel channel,
                               PipelineChannel::Create(world[rank].get()));
    EXPECT_EQ(channel.stage(), 2 - rank);
    EXPECT_EQ(channel.num_stages(), 3);
    EXPECT_EQ(channel.is_first_stage(), rank == 2);
    EXPECT_EQ(channel.is_last_stage(), rank == 0);
  }
}

// Stage s adds its number + 1 to each of two micro-batches, last one first, and
// the gradients come back doubled at each stage.
void RunStage(Communicator* communicator, int floats) {
  SHOAL_ASSERT_OK_AND_ASSIGN(PipelineChannel channel,
                             PipelineChannel::Create(communicator));
  for (const int micro_batch : {1, 0}) {
    std::vector<float> values(floats, 100.0F * static_cast<float>(micro_batch));
    if (!channel.is_first_stage()) {
      SHOAL_ASSERT_OK(channel.RecvActivations(Of(values), micro_batch));
    }
    for (float& value : values) {
      value += static_cast<float>(channel.stage() + 1);
    }
    if (!channel.is_last_stage()) {
      SHOAL_ASSERT_OK(channel.SendActivations(Of(values), micro_batch));
    } else {
      const int n = channel.num_stages();
      const float expected = 100.0F * static_cast<float>(micro_batch) +
                             static_cast<float>(n * (n + 1) / 2);
      EXPECT_EQ(values, std::vector<float>(floats, expected));
    }
  }
  float doubled = 1;
  for (int later = channel.stage() + 1; later < channel.num_stages(); ++later) {
    doubled *= 2;
  }
  std::vector<float> gradient(3, 1.0F);
  if (!channel.is_last_stage()) {
    SHOAL_ASSERT_OK(channel.RecvGradients(Of(gradient), 0));
  }
  EXPECT_EQ(gradient, std::vector<float>(3, doubled));
  for (float& value : gradient) value *= 2;
  if (!channel.is_first_stage()) {
    SHOAL_ASSERT_OK(channel.SendGradients(Of(gradient), 0));
  }
}

TEST(PipelineChannelTest, CarriesActivationsDownAndGradientsUp) {
  for (int world_size = 1; world_size <= 8; ++world_size) {
    // A message that goes at once, and one that waits for its receive.
    for (const int floats : {5, 100000}) {
      SCOPED_TRACE(testing::Message() << world_size << " stages, " << floats);
      SHOAL_ASSERT_OK_AND_ASSIGN(
          auto world, InProcessCommunicator::CreateWorld(world_size));
      std::vector<std::thread> ranks;
      for (auto& communicator : world) {
        ranks.emplace_back(RunStage, communicator.get(), floats);
      }
      for (std::thread& rank : ranks) rank.join();
    }
  }
}

TEST(PipelineChannelTest, RefusesNeighboursThatAreNotThere) {
  IdentityCommunicator communicator;
  SHOAL_ASSERT_OK_AND_ASSIGN(PipelineChannel channel,
                             PipelineChannel::Create(&communicator));
  std::vector<float> values(1);
  const absl::Status refused[] = {channel.RecvActivations(Of(values), 0),
                                  channel.SendActivations(Of(values), 0),
                                  channel.RecvGradients(Of(values), 0),
                                  channel.SendGradients(Of(values), 0)};
  for (const absl::Status& status : refused) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("stage 0 of 1 has no stage")));
  }
  EXPECT_THAT(PipelineChannel::Create(nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PipelineChannelTest, RefusesMicroBatchesOutOfRange) {
  SHOAL_ASSERT_OK_AND_ASSIGN(auto world, InProcessCommunicator::CreateWorld(2));
  SHOAL_ASSERT_OK_AND_ASSIGN(PipelineChannel first,
                             PipelineChannel::Create(world[1].get()));
  std::vector<float> values(1);
  EXPECT_THAT(first.SendActivations(Of(values), -1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("micro-batch -1")));
  EXPECT_THAT(
      first.RecvGradients(Of(values), PipelineChannel::kMaxMicroBatch + 1),
      StatusIs(absl::StatusCode::kInvalidArgument));
  // The largest is a valid tag: eager, so it needs no receiver to return.
  SHOAL_EXPECT_OK(
      first.SendActivations(Of(values), PipelineChannel::kMaxMicroBatch));
}

}  // namespace
}  // namespace shoal
