// SPDX-License-Identifier: Apache-2.0
//
// The verifier finds what is wrong: right schedules are broken, step by step,
// in every way that this file knows.

#include "shoal/comm/schedule_verifier.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;

// A collective whose schedules are right until a test changes them.
struct Subject {
  std::vector<Schedule> schedules;
  std::vector<bool> in_place;

  std::string Name() const {
    return schedules[0].signature.ToString() + " world " +
           std::to_string(schedules.size()) + (in_place[0] ? " in place" : "");
  }
  void Finish() {
    for (Schedule& schedule : schedules) FinishSchedule(&schedule);
  }
  absl::Status Verify(const std::vector<std::int64_t>& capacities = {
                          kUnlimitedLink}) const {
    return VerifySchedules(schedules, in_place, capacities);
  }
};

Subject Build(CallKind kind, Algorithm algorithm, std::int64_t count,
              int world_size, bool in_place) {
  Subject subject;
  CallSignature signature;
  signature.kind = kind;
  signature.algorithm = algorithm;
  signature.count = count;
  for (int rank = 0; rank < world_size; ++rank) {
    subject.schedules.push_back(
        BuildSchedule(signature, rank, world_size, in_place).value());
    subject.in_place.push_back(in_place);
  }
  return subject;
}

// Everything that moves data, with no empty ranges.
std::vector<Subject> AllSubjects() {
  std::vector<Subject> subjects;
  for (const CallKind kind :
       {CallKind::kAllReduce, CallKind::kReduceScatter, CallKind::kAllGather,
        CallKind::kBroadcast, CallKind::kReduce, CallKind::kGather,
        CallKind::kScatter, CallKind::kAllToAll}) {
    for (const Algorithm algorithm : AlgorithmsOf(kind)) {
      for (const int world_size : {2, 3, 4, 5, 8}) {
        for (const bool in_place : {false, true}) {
          subjects.push_back(
              Build(kind, algorithm, 2 * world_size + 1, world_size, in_place));
        }
      }
    }
  }
  return subjects;
}

// Applies `change` to each step of each rank of each subject in turn. It says
// whether it changed anything; if so, the verifier has to object, in `words`.
void ExpectCaught(
    const std::function<bool(Schedule* schedule, std::size_t step)>& change,
    bool finish, const std::string& words, int at_least) {
  int caught = 0;
  for (const Subject& subject : AllSubjects()) {
    for (std::size_t rank = 0; rank < subject.schedules.size(); ++rank) {
      const std::size_t steps = subject.schedules[rank].steps.size();
      for (std::size_t step = 0; step < steps; ++step) {
        Subject broken = subject;
        if (!change(&broken.schedules[rank], step)) continue;
        if (finish) broken.Finish();
        EXPECT_THAT(broken.Verify(),
                    StatusIs(absl::StatusCode::kInternal, HasSubstr(words)))
            << subject.Name() << " rank " << rank << " step " << step << "\n"
            << broken.schedules[rank].ToString();
        ++caught;
      }
    }
  }
  EXPECT_GE(caught, at_least);
}

TEST(ScheduleVerifierTest, TheSubjectsAreRight) {
  for (const Subject& subject : AllSubjects()) {
    SHOAL_EXPECT_OK(subject.Verify({1, 3, kUnlimitedLink})) << subject.Name();
  }
}

TEST(ScheduleVerifierTest, FindsAMissingStep) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        schedule->steps.erase(schedule->steps.begin() + step);
        return true;
      },
      /*finish=*/true, "", 500);
}

TEST(ScheduleVerifierTest, FindsADoubledStep) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        // Copying the same twice is right, if wasteful; out of place folding,
        // too.
        if (IsLocal(schedule->steps[step].kind)) return false;
        schedule->steps.insert(schedule->steps.begin() + step,
                               schedule->steps[step]);
        return true;
      },
      /*finish=*/true, "do not match", 500);
}

TEST(ScheduleVerifierTest, FindsAnyMissingDependency) {
  int caught = 0;
  for (const Subject& subject : AllSubjects()) {
    for (std::size_t rank = 0; rank < subject.schedules.size(); ++rank) {
      for (std::size_t i = 0; i < subject.schedules[rank].steps.size(); ++i) {
        const std::size_t size =
            subject.schedules[rank].steps[i].depends_on.size();
        for (std::size_t d = 0; d < size; ++d) {
          Subject broken = subject;
          auto& depends_on = broken.schedules[rank].steps[i].depends_on;
          depends_on.erase(depends_on.begin() + d);
          EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal,
                                                HasSubstr("does not wait for")))
              << subject.Name() << " rank " << rank << " step " << i;
          ++caught;
        }
      }
    }
  }
  EXPECT_GE(caught, 300);
}

TEST(ScheduleVerifierTest, FindsAShiftedRange) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        BufferRange* target = &schedule->steps[step].target;
        target->begin += target->begin > 0 ? -1 : 1;
        return true;
      },
      /*finish=*/true, "", 500);
}

TEST(ScheduleVerifierTest, FindsAShortRange) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        --schedule->steps[step].target.count;
        return true;
      },
      /*finish=*/true, "", 500);
}

// Also where both sides agree on it.
TEST(ScheduleVerifierTest, FindsAnElementThatNobodySends) {
  Subject broken = Build(CallKind::kBroadcast, Algorithm::kBinomialTree, 5, 2,
                         /*in_place=*/true);
  for (Schedule& schedule : broken.schedules) {
    --schedule.steps[0].target.count;
  }
  broken.Finish();
  EXPECT_THAT(
      broken.Verify(),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("rank 1 output element 4: x1 in place of x0")));
}

TEST(ScheduleVerifierTest, FindsAnotherSource) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        BufferRange* source = &schedule->steps[step].source;
        if (source->count == 0) return false;
        source->begin += source->begin > 0 ? -1 : 1;
        return true;
      },
      /*finish=*/true, "", 100);
}

TEST(ScheduleVerifierTest, FindsAnotherPeer) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        Step* changed = &schedule->steps[step];
        if (IsLocal(changed->kind)) return false;
        changed->peer = (changed->peer + 1) % schedule->world_size;
        return true;
      },
      /*finish=*/true, "", 500);
}

TEST(ScheduleVerifierTest, FindsOperandsInAnotherOrder) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        Step* changed = &schedule->steps[step];
        if (changed->kind == StepKind::kFold) {
          std::swap(changed->operands[0], changed->operands[1]);
          return true;
        }
        if (changed->kind != StepKind::kReceiveReduce) return false;
        changed->source_first = !changed->source_first;
        return true;
      },
      /*finish=*/true, "the operands are in another order", 100);
}

TEST(ScheduleVerifierTest, FindsAMissingOrASecondCompletion) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        Step* changed = &schedule->steps[step];
        if (changed->kind != StepKind::kReceiveReduce &&
            changed->kind != StepKind::kFold) {
          return false;
        }
        changed->completes = !changed->completes;
        return true;
      },
      /*finish=*/true, "it is completed ", 100);
}

TEST(ScheduleVerifierTest, FindsAReductionThatOnlyCopies) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        Step* changed = &schedule->steps[step];
        if (changed->kind != StepKind::kReceiveReduce || changed->completes) {
          return false;
        }
        changed->kind = StepKind::kReceive;
        return true;
      },
      /*finish=*/true, "is contained 0 times", 50);
}

TEST(ScheduleVerifierTest, FindsAFoldWithoutAnOperand) {
  ExpectCaught(
      [](Schedule* schedule, std::size_t step) {
        Step* changed = &schedule->steps[step];
        if (changed->kind != StepKind::kFold) return false;
        changed->operands.pop_back();
        return true;
      },
      /*finish=*/true, "", 50);
}

TEST(ScheduleVerifierTest, FindsAnOperandThatCountsTwice) {
  // Both ranks add what they sent each other, once more.
  Subject broken = Build(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 3,
                         2, /*in_place=*/false);
  for (Schedule& schedule : broken.schedules) {
    schedule.steps[1].completes = false;
    Step send = schedule.steps[0];
    Step add = schedule.steps[1];
    add.source.buffer = BufferId::kOutput;
    add.completes = true;
    schedule.steps.push_back(send);
    schedule.steps.push_back(add);
  }
  broken.Finish();
  EXPECT_THAT(broken.Verify(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("rank 1 is contained 2 times")));
}

// Two receives from one rank in the wrong order.
TEST(ScheduleVerifierTest, FindsSwappedSteps) {
  for (const bool in_place : {false, true}) {
    const Subject subject =
        Build(CallKind::kAllReduce, Algorithm::kRing, 8, 4, in_place);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      for (std::size_t i = 0; i + 2 < subject.schedules[rank].steps.size();
           ++i) {
        Subject broken = subject;
        std::vector<Step>& steps = broken.schedules[rank].steps;
        std::swap(steps[i], steps[i + 2]);
        broken.Finish();
        EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal))
            << rank << " " << i;
      }
    }
  }
}

TEST(ScheduleVerifierTest, FindsThatAnInputIsReadAfterItWasOverwritten) {
  // In place, rank 0 receives into what it has yet to send.
  Subject broken = Build(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 3,
                         2, /*in_place=*/true);
  std::swap(broken.schedules[0].steps[0], broken.schedules[0].steps[1]);
  broken.Finish();
  EXPECT_THAT(broken.Verify(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("rank 1")));
  // The same fault hidden behind the input's other name.
  broken = Build(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 3, 2,
                 /*in_place=*/false);
  SHOAL_ASSERT_OK(broken.Verify());
  broken.in_place = {true, true};
  EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("does not wait for step 0")));
}

TEST(ScheduleVerifierTest, FindsThatTheInputIsWritten) {
  Subject broken = Build(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 3,
                         2, /*in_place=*/false);
  broken.schedules[1].steps[1].target.buffer = BufferId::kInput;
  broken.Finish();
  EXPECT_THAT(broken.Verify(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("rank 1 step 1 writes to the input")));
}

TEST(ScheduleVerifierTest, FindsAReadOfWhatWasNeverWritten) {
  Subject broken = Build(CallKind::kAllGather, Algorithm::kRing, 3, 2,
                         /*in_place=*/false);
  broken.schedules[1].steps[0].target = {BufferId::kOutput, 0, 3};
  broken.Finish();
  EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("nobody ever wrote")));
}

TEST(ScheduleVerifierTest, FindsADeadlockOfRanksThatWaitForEachOther) {
  Subject broken = Build(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 3,
                         2, /*in_place=*/false);
  for (Schedule& schedule : broken.schedules) {
    std::swap(schedule.steps[0], schedule.steps[1]);
    schedule.steps[1].after = 0;
  }
  broken.Finish();
  EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("deadlock with links of")));
}

// Both send before they receive: right as long as the links hold it all.
TEST(ScheduleVerifierTest, FindsADeadlockThatNeedsAFullLink) {
  Subject broken = Build(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 4,
                         2, /*in_place=*/false);
  for (Schedule& schedule : broken.schedules) schedule.steps[1].after = 0;
  SHOAL_EXPECT_OK(broken.Verify({5, kUnlimitedLink}));
  EXPECT_THAT(
      broken.Verify({kUnlimitedLink, 4}),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("deadlock with links of 4 items: rank 0 step 0 at "
                         "element 3; rank 1 step 0 at element 3")));
}

// Empty messages take room as well.
TEST(ScheduleVerifierTest, FindsADeadlockOfHeadersOnAFullLink) {
  Subject broken =
      Build(CallKind::kBarrier, Algorithm::kDissemination, 0, 2, false);
  for (Schedule& schedule : broken.schedules) {
    const Step send = schedule.steps[0];
    Step receive = schedule.steps[1];
    receive.after = 1;
    schedule.steps = {send, send, receive, receive};
  }
  SHOAL_EXPECT_OK(broken.Verify({2, kUnlimitedLink}));
  EXPECT_THAT(broken.Verify({1}),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("deadlock with links of 1 items: rank 0 step "
                                 "1 at element 0")));
}

TEST(ScheduleVerifierTest, FindsABarrierThatLetsRanksThrough) {
  for (const int world_size : {4, 5, 8, 13, 16}) {
    const Subject subject = Build(CallKind::kBarrier, Algorithm::kDissemination,
                                  0, world_size, false);
    SHOAL_ASSERT_OK(subject.Verify({1, kUnlimitedLink}));
    const std::size_t steps = subject.schedules[0].steps.size();
    const auto expect_caught = [&](const auto& change) {
      Subject broken = subject;
      for (Schedule& schedule : broken.schedules) change(&schedule);
      EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal,
                                            HasSubstr("may leave before rank")))
          << broken.schedules[0].ToString();
    };
    // One round less, and no order between the rounds.
    expect_caught(
        [&](Schedule* schedule) { schedule->steps.resize(steps - 2); });
    expect_caught([&](Schedule* schedule) {
      for (Step& step : schedule->steps) step.after = -1;
    });
    // A power of two has no round to spare. Nothing follows the last receive.
    if ((world_size & (world_size - 1)) != 0) continue;
    for (std::size_t i = 2; i < steps - 1; ++i) {
      expect_caught([&](Schedule* schedule) { schedule->steps[i].after = -1; });
    }
  }
}

TEST(ScheduleVerifierTest, FindsStepsThatReferToLaterOnes) {
  const Subject subject =
      Build(CallKind::kAllReduce, Algorithm::kRing, 4, 2, false);
  Subject broken = subject;
  broken.schedules[0].steps[1].after = 1;
  EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("comes after step 1")));
  broken = subject;
  broken.schedules[0].steps[1].depends_on.push_back(2);
  EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("depends on step 2")));
}

TEST(ScheduleVerifierTest, FindsRanksOfDifferentCalls) {
  Subject broken = Build(CallKind::kAllReduce, Algorithm::kRing, 4, 2, false);
  broken.schedules[1].signature.count = 5;
  EXPECT_THAT(broken.Verify(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("not one of this")));
}

}  // namespace
}  // namespace shoal::internal
