// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/pipeline_schedule_verifier.h"

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/pipeline_schedule.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr ScheduleKind kKinds[] = {ScheduleKind::kForwardOnly,
                                   ScheduleKind::kGPipe,
                                   ScheduleKind::kOneForwardOneBackward};
constexpr PassDirection kForward = PassDirection::kForward;
constexpr PassDirection kBackward = PassDirection::kBackward;

template <typename... Words>
auto Refused(const Words&... words) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr(words)...));
}

PipelineSchedule OneForwardOneBackward2x3() {
  PipelineSchedule schedule;
  schedule.kind = ScheduleKind::kOneForwardOneBackward;
  schedule.num_micro_batches = 3;
  schedule.stages = {{{0, kForward, 0},
                      {1, kForward, 1},
                      {3, kBackward, 0},
                      {4, kForward, 2},
                      {5, kBackward, 1},
                      {7, kBackward, 2}},
                     {{1, kForward, 0},
                      {2, kBackward, 0},
                      {3, kForward, 1},
                      {4, kBackward, 1},
                      {5, kForward, 2},
                      {6, kBackward, 2}}};
  return schedule;
}

PipelineSchedule ForwardOnly2x2() {
  PipelineSchedule schedule;
  schedule.kind = ScheduleKind::kForwardOnly;
  schedule.num_micro_batches = 2;
  schedule.stages = {{{0, kForward, 0}, {1, kForward, 1}},
                     {{1, kForward, 0}, {2, kForward, 1}}};
  return schedule;
}

TEST(PipelineScheduleVerifierTest, AcceptsEverySchedule) {
  for (const ScheduleKind kind : kKinds) {
    for (int stages = 1; stages <= 16; ++stages) {
      for (int micro_batches = 1; micro_batches <= 32; ++micro_batches) {
        SHOAL_ASSERT_OK_AND_ASSIGN(
            const PipelineSchedule schedule,
            MakePipelineSchedule(kind, stages, micro_batches));
        SHOAL_EXPECT_OK(VerifyPipelineSchedule(schedule)) << schedule;
      }
    }
  }
}

// The verifier does not lean on the code that it verifies: written by hand,
// these are valid, and equal to what is made.
TEST(PipelineScheduleVerifierTest, AcceptsSchedulesMadeByHand) {
  SHOAL_EXPECT_OK(VerifyPipelineSchedule(OneForwardOneBackward2x3()));
  EXPECT_THAT(MakePipelineSchedule(ScheduleKind::kOneForwardOneBackward, 2, 3),
              IsOkAndHolds(OneForwardOneBackward2x3()));
  SHOAL_EXPECT_OK(VerifyPipelineSchedule(ForwardOnly2x2()));
  EXPECT_THAT(MakePipelineSchedule(ScheduleKind::kForwardOnly, 2, 2),
              IsOkAndHolds(ForwardOnly2x2()));
}

// Whatever single pass is dropped, doubled or given another micro-batch or
// direction, it is noticed.
TEST(PipelineScheduleVerifierTest, NoticesEverySmallChange) {
  const PipelineSchedule valid = OneForwardOneBackward2x3();
  for (int stage = 0; stage < 2; ++stage) {
    for (size_t i = 0; i < valid.stages[stage].size(); ++i) {
      PipelineSchedule dropped = valid;
      dropped.stages[stage].erase(dropped.stages[stage].begin() + i);
      EXPECT_THAT(VerifyPipelineSchedule(dropped), Refused("has 5 passes"));

      PipelineSchedule doubled = valid;
      doubled.stages[stage].push_back({8, kBackward, static_cast<int>(i % 3)});
      EXPECT_THAT(VerifyPipelineSchedule(doubled), Refused("has 7 passes"));

      PipelineSchedule turned = valid;
      PassDirection& direction = turned.stages[stage][i].direction;
      direction = direction == kForward ? kBackward : kForward;
      EXPECT_THAT(VerifyPipelineSchedule(turned), Refused("the same as"));

      for (int other = -1; other <= 3; ++other) {
        PipelineSchedule swapped = valid;
        if (swapped.stages[stage][i].micro_batch == other) continue;
        swapped.stages[stage][i].micro_batch = other;
        EXPECT_FALSE(VerifyPipelineSchedule(swapped).ok()) << swapped;
      }
    }
  }
}

TEST(PipelineScheduleVerifierTest, RefusesTwoPassesInOneStep) {
  PipelineSchedule schedule = ForwardOnly2x2();
  schedule.stages[0][1].step = 0;
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 0 has F1@0 after step 0, not in a later step"));
}

TEST(PipelineScheduleVerifierTest, RefusesStepsOutOfOrder) {
  PipelineSchedule schedule = ForwardOnly2x2();
  std::swap(schedule.stages[1][0], schedule.stages[1][1]);
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 1 has F0@1 after step 2"));
  schedule = ForwardOnly2x2();
  schedule.stages[0][0].step = -1;
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 0 has F0@-1 before step 0"));
}

TEST(PipelineScheduleVerifierTest, RefusesAMicroBatchRunTwice) {
  PipelineSchedule schedule = ForwardOnly2x2();
  schedule.stages[0][1].micro_batch = 0;
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 0 has F0@1, the same as at step 0"));
}

TEST(PipelineScheduleVerifierTest, RefusesUnknownMicroBatches) {
  for (const int micro_batch : {-1, 2, std::numeric_limits<int>::max()}) {
    PipelineSchedule schedule = ForwardOnly2x2();
    schedule.stages[1][1].micro_batch = micro_batch;
    EXPECT_THAT(VerifyPipelineSchedule(schedule),
                Refused("stage 1", "there are 2 micro-batches"));
  }
}

TEST(PipelineScheduleVerifierTest, RefusesWrongDirections) {
  PipelineSchedule schedule = ForwardOnly2x2();
  schedule.stages[1][1].direction = kBackward;
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 1", "direction backward", "forward-only"));
  schedule = OneForwardOneBackward2x3();
  schedule.stages[0][0].direction = static_cast<PassDirection>(2);
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 0", "direction unknown"));
}

TEST(PipelineScheduleVerifierTest, RefusesAForwardBeforeThePreviousStages) {
  PipelineSchedule schedule = ForwardOnly2x2();
  schedule.stages[1][0].step = 0;  // As early as on stage 0.
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 1 runs the forward of micro-batch 0 at step 0",
                      "needs its forward on stage 0, which runs at step 0"));
}

TEST(PipelineScheduleVerifierTest, RefusesABackwardBeforeTheNextStages) {
  PipelineSchedule schedule = OneForwardOneBackward2x3();
  schedule.stages[0][2].step = 2;  // As early as on stage 1.
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 0 runs the backward of micro-batch 0 at step 2",
                      "needs its backward on stage 1, which runs at step 2"));
}

TEST(PipelineScheduleVerifierTest, RefusesABackwardBeforeItsOwnForward) {
  PipelineSchedule schedule;
  schedule.kind = ScheduleKind::kOneForwardOneBackward;
  schedule.num_micro_batches = 1;
  schedule.stages = {{{0, kBackward, 0}, {1, kForward, 0}}};
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("needs its forward on stage 0, which runs at step 1"));
}

TEST(PipelineScheduleVerifierTest, BoundsTheActivationsOf1F1B) {
  // GPipe's passes meet every dependency, but hold too much.
  SHOAL_ASSERT_OK_AND_ASSIGN(PipelineSchedule schedule,
                             MakePipelineSchedule(ScheduleKind::kGPipe, 2, 4));
  SHOAL_EXPECT_OK(VerifyPipelineSchedule(schedule));
  schedule.kind = ScheduleKind::kOneForwardOneBackward;
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 0 holds the activations of 3 micro-batches",
                      "1F1B holds at most 2"));
}

TEST(PipelineScheduleVerifierTest, GPipeRunsAllForwardsFirst) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      PipelineSchedule schedule,
      MakePipelineSchedule(ScheduleKind::kOneForwardOneBackward, 2, 4));
  SHOAL_EXPECT_OK(VerifyPipelineSchedule(schedule));
  schedule.kind = ScheduleKind::kGPipe;
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("stage 0 has F2@4 after a backward pass"));
}

TEST(PipelineScheduleVerifierTest, RefusesABubbleLargerThanPromised) {
  PipelineSchedule schedule = ForwardOnly2x2();
  schedule.stages[1][1].step = 3;
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("takes 3 steps, but this one takes 4"));
}

TEST(PipelineScheduleVerifierTest, RefusesSchedulesWithoutAnything) {
  EXPECT_THAT(VerifyPipelineSchedule(PipelineSchedule()),
              Refused("num_stages must be > 0, got 0"));
  PipelineSchedule schedule = ForwardOnly2x2();
  schedule.num_micro_batches = 0;
  EXPECT_THAT(VerifyPipelineSchedule(schedule),
              Refused("num_micro_batches must be > 0, got 0"));
  schedule = ForwardOnly2x2();
  schedule.kind = static_cast<ScheduleKind>(9);
  EXPECT_THAT(VerifyPipelineSchedule(schedule), Refused("kind 9"));
}

TEST(PipelineScheduleVerifierTest, ClaimedSizesAreNotBelieved) {
  // Two billion micro-batches that are not there must not be allocated.
  PipelineSchedule schedule = ForwardOnly2x2();
  schedule.num_micro_batches = std::numeric_limits<int>::max();
  EXPECT_THAT(VerifyPipelineSchedule(schedule), Refused("has 2 passes"));
}

}  // namespace
}  // namespace shoal
