// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/pipeline_schedule.h"

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/hash/hash_testing.h"
#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal {
namespace {

using testing::HasSubstr;

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr ScheduleKind kKinds[] = {ScheduleKind::kForwardOnly,
                                   ScheduleKind::kGPipe,
                                   ScheduleKind::kOneForwardOneBackward};

std::string Diagram(ScheduleKind kind, int stages, int micro_batches) {
  const auto schedule = MakePipelineSchedule(kind, stages, micro_batches);
  return schedule.ok() ? schedule->ToString() : schedule.status().ToString();
}

TEST(PipelineScheduleTest, ForwardOnly) {
  EXPECT_EQ(
      Diagram(ScheduleKind::kForwardOnly, 3, 4),
      "forward-only: 3 stages, 4 micro-batches, 6 steps, bubble 0.333333\n"
      "stage 0: F0 F1 F2 F3 .. ..\n"
      "stage 1: .. F0 F1 F2 F3 ..\n"
      "stage 2: .. .. F0 F1 F2 F3");
}

TEST(PipelineScheduleTest, GPipe) {
  EXPECT_EQ(Diagram(ScheduleKind::kGPipe, 3, 3),
            "GPipe: 3 stages, 3 micro-batches, 10 steps, bubble 0.4\n"
            "stage 0: F0 F1 F2 .. .. .. .. B2 B1 B0\n"
            "stage 1: .. F0 F1 F2 .. .. B2 B1 B0 ..\n"
            "stage 2: .. .. F0 F1 F2 B2 B1 B0 .. ..");
}

TEST(PipelineScheduleTest, OneForwardOneBackward) {
  EXPECT_EQ(Diagram(ScheduleKind::kOneForwardOneBackward, 2, 3),
            "1F1B: 2 stages, 3 micro-batches, 8 steps, bubble 0.25\n"
            "stage 0: F0 F1 .. B0 F2 B1 .. B2\n"
            "stage 1: .. F0 B0 F1 B1 F2 B2 ..");
  EXPECT_EQ(Diagram(ScheduleKind::kOneForwardOneBackward, 4, 6),
            "1F1B: 4 stages, 6 micro-batches, 18 steps, bubble 0.333333\n"
            "stage 0: F0 F1 F2 F3 .. .. .. B0 F4 B1 F5 B2 .. B3 .. B4 .. B5\n"
            "stage 1: .. F0 F1 F2 .. .. B0 F3 B1 F4 B2 F5 B3 .. B4 .. B5 ..\n"
            "stage 2: .. .. F0 F1 .. B0 F2 B1 F3 B2 F4 B3 F5 B4 .. B5 .. ..\n"
            "stage 3: .. .. .. F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 .. .. ..");
}

TEST(PipelineScheduleTest, FewerMicroBatchesThanStages) {
  EXPECT_EQ(Diagram(ScheduleKind::kOneForwardOneBackward, 3, 1),
            "1F1B: 3 stages, 1 micro-batches, 6 steps, bubble 0.666667\n"
            "stage 0: F0 .. .. .. .. B0\n"
            "stage 1: .. F0 .. .. B0 ..\n"
            "stage 2: .. .. F0 B0 .. ..");
}

TEST(PipelineScheduleTest, ColumnsAreAlignedFromTenMicroBatchesOn) {
  EXPECT_EQ(Diagram(ScheduleKind::kForwardOnly, 2, 11),
            "forward-only: 2 stages, 11 micro-batches, 12 steps, bubble "
            "0.0833333\n"
            "stage 0: F0  F1  F2  F3  F4  F5  F6  F7  F8  F9  F10 ...\n"
            "stage 1: ... F0  F1  F2  F3  F4  F5  F6  F7  F8  F9  F10");
}

TEST(PipelineScheduleTest, BubbleRatioIsTheFormula) {
  for (const ScheduleKind kind : kKinds) {
    for (int p = 1; p <= 16; ++p) {
      for (int m = 1; m <= 32; ++m) {
        SHOAL_ASSERT_OK_AND_ASSIGN(const PipelineSchedule schedule,
                                   MakePipelineSchedule(kind, p, m));
        EXPECT_EQ(schedule.num_stages(), p);
        EXPECT_EQ(schedule.num_micro_batches, m);
        const int64_t directions = kind == ScheduleKind::kForwardOnly ? 1 : 2;
        EXPECT_EQ(schedule.num_steps(), directions * (m + p - 1));
        EXPECT_EQ(ScheduleSteps(kind, p, m), schedule.num_steps());
        // Equal quotients round to the same double.
        EXPECT_EQ(schedule.BubbleRatio(),
                  static_cast<double>(p - 1) / (m + p - 1))
            << kind << ", " << p << " stages, " << m << " micro-batches";
      }
    }
  }
}

TEST(PipelineScheduleTest, RefusesImpossibleArguments) {
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  for (const ScheduleKind kind : kKinds) {
    EXPECT_THAT(MakePipelineSchedule(kind, 0, 4),
                refused("num_stages must be > 0, got 0"));
    EXPECT_THAT(MakePipelineSchedule(kind, 4, -1),
                refused("num_micro_batches must be > 0, got -1"));
  }
  EXPECT_THAT(MakePipelineSchedule(static_cast<ScheduleKind>(7), 4, 4),
              refused("got 7"));
}

TEST(PipelineScheduleTest, RefusesMorePassesThanAMachineShouldHold) {
  // The largest that is allowed, and the next.
  SHOAL_EXPECT_OK(MakePipelineSchedule(ScheduleKind::kGPipe, 64, 32768));
  EXPECT_THAT(MakePipelineSchedule(ScheduleKind::kGPipe, 64, 32769),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("64 stages with 32769 micro-batches")));
  for (const ScheduleKind kind : kKinds) {
    EXPECT_THAT(MakePipelineSchedule(kind, kMaxInt, kMaxInt),
                StatusIs(absl::StatusCode::kOutOfRange));
  }
}

TEST(PipelineScheduleTest, WideSchedulesAreNotDrawn) {
  EXPECT_EQ(Diagram(ScheduleKind::kForwardOnly, 1, 1000),
            "forward-only: 1 stages, 1000 micro-batches, 1000 steps, bubble 0");
}

TEST(PipelineScheduleTest, TextOfAnInvalidScheduleIsHarmless) {
  PipelineSchedule schedule;
  EXPECT_EQ(schedule.BubbleRatio(), 0);
  EXPECT_EQ(schedule.ToString(),
            "forward-only: 0 stages, 0 micro-batches, 0 steps, bubble 0");
  schedule.stages = {{{.step = -5}, {.step = 1, .micro_batch = -1000}}};
  EXPECT_THAT(schedule.ToString(), HasSubstr("F-1000"));
  schedule.stages = {{{.step = kMaxInt}}};
  EXPECT_EQ(schedule.num_steps(), int64_t{kMaxInt} + 1);
  EXPECT_THAT(schedule.ToString(), HasSubstr("2147483648 steps"));
}

TEST(PipelineScheduleTest, IsReadable) {
  std::ostringstream stream;
  stream << ScheduledPass{5, PassDirection::kForward, 3} << " "
         << ScheduledPass{6, PassDirection::kBackward, 3} << " "
         << ScheduleKind::kOneForwardOneBackward << " "
         << PassDirection::kBackward;
  EXPECT_EQ(stream.str(), "F3@5 B3@6 1F1B backward");
  EXPECT_EQ(ScheduleKindName(static_cast<ScheduleKind>(7)), "unknown");
  EXPECT_EQ(PassDirectionName(static_cast<PassDirection>(7)), "unknown");
}

TEST(PipelineScheduleTest, HashAgreesWithEquality) {
  std::vector<PipelineSchedule> schedules;
  for (const ScheduleKind kind : kKinds) {
    for (int p = 1; p <= 2; ++p) {
      for (int m = 1; m <= 2; ++m) {
        SHOAL_ASSERT_OK_AND_ASSIGN(PipelineSchedule schedule,
                                   MakePipelineSchedule(kind, p, m));
        for (const PipelineSchedule& other : schedules) {
          EXPECT_NE(schedule, other);
        }
        EXPECT_THAT(MakePipelineSchedule(kind, p, m), IsOkAndHolds(schedule));
        schedules.push_back(schedule);
      }
    }
  }
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(schedules));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {ScheduledPass{0, PassDirection::kForward, 0},
       ScheduledPass{1, PassDirection::kForward, 0},
       ScheduledPass{0, PassDirection::kBackward, 0},
       ScheduledPass{0, PassDirection::kForward, 1}}));
}

}  // namespace
}  // namespace shoal
