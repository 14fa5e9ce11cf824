// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/pipeline_schedule_verifier.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/pipeline_schedule.h"

namespace shoal {
namespace {

constexpr absl::string_view kCaller = "VerifyPipelineSchedule";

template <typename... Args>
absl::Status Wrong(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(kCaller, ": ", args...));
}

// The step of each micro-batch's pass on one stage, by micro-batch.
struct StageSteps {
  static constexpr int kNever = -1;

  explicit StageSteps(int num_micro_batches)
      : forward(num_micro_batches, kNever),
        backward(num_micro_batches, kNever) {}

  std::vector<int> forward;
  std::vector<int> backward;
};

// Rules 2 and 3 for one stage, whose steps it fills in.
absl::Status CheckPasses(const PipelineSchedule& schedule, int stage,
                         StageSteps& steps) {
  const bool backward = schedule.kind != ScheduleKind::kForwardOnly;
  int last_step = -1;
  for (const ScheduledPass& pass : schedule.stages[stage]) {
    if (pass.direction != PassDirection::kForward &&
        !(backward && pass.direction == PassDirection::kBackward)) {
      return Wrong("stage ", stage, " has a pass of direction ",
                   PassDirectionName(pass.direction), " at step ", pass.step,
                   ", which a ", ScheduleKindName(schedule.kind),
                   " schedule does not have");
    }
    if (pass.step <= last_step) {
      return Wrong("stage ", stage, " has ", pass.ToString(),
                   last_step < 0 ? " before step 0"
                                 : absl::StrCat(" after step ", last_step,
                                                ", not in a later step"));
    }
    last_step = pass.step;
    if (pass.micro_batch < 0 ||
        pass.micro_batch >= schedule.num_micro_batches) {
      return Wrong("stage ", stage, " has ", pass.ToString(),
                   ", but there are ", schedule.num_micro_batches,
                   " micro-batches");
    }
    int& step = pass.direction == PassDirection::kForward
                    ? steps.forward[pass.micro_batch]
                    : steps.backward[pass.micro_batch];
    if (step != StageSteps::kNever) {
      return Wrong("stage ", stage, " has ", pass.ToString(),
                   ", the same as at step ", step);
    }
    step = pass.step;
  }
  // As many passes as needed, all of them different: none is missing.
  return absl::OkStatus();
}

// Rule 4 for the passes of `stage` and those of its neighbours.
absl::Status CheckDependencies(const std::vector<StageSteps>& stages, int stage,
                               bool backward) {
  const auto check = [stage](absl::string_view pass, int i, int step,
                             absl::string_view needed, int needed_stage,
                             int needed_step) {
    if (step > needed_step) return absl::OkStatus();
    return Wrong("stage ", stage, " runs the ", pass, " of micro-batch ", i,
                 " at step ", step, ", but needs its ", needed, " on stage ",
                 needed_stage, ", which runs at step ", needed_step);
  };
  const StageSteps& own = stages[stage];
  for (size_t i = 0; i < own.forward.size(); ++i) {
    const int batch = static_cast<int>(i);
    if (stage > 0) {
      SHOAL_RETURN_IF_ERROR(check("forward", batch, own.forward[i], "forward",
                                  stage - 1, stages[stage - 1].forward[i]));
    }
    if (!backward) continue;
    SHOAL_RETURN_IF_ERROR(check("backward", batch, own.backward[i], "forward",
                                stage, own.forward[i]));
    if (stage + 1 < static_cast<int>(stages.size())) {
      SHOAL_RETURN_IF_ERROR(check("backward", batch, own.backward[i],
                                  "backward", stage + 1,
                                  stages[stage + 1].backward[i]));
    }
  }
  return absl::OkStatus();
}

// Rule 5 for one stage.
absl::Status CheckKind(const PipelineSchedule& schedule, int stage) {
  const int limit =
      schedule.kind == ScheduleKind::kOneForwardOneBackward
          ? std::min(schedule.num_micro_batches, schedule.num_stages() - stage)
          : schedule.num_micro_batches;
  int in_flight = 0;
  bool backward_seen = false;
  for (const ScheduledPass& pass : schedule.stages[stage]) {
    if (pass.direction == PassDirection::kBackward) {
      backward_seen = true;
      --in_flight;
      continue;
    }
    ++in_flight;
    if (in_flight > limit) {
      return Wrong("stage ", stage, " holds the activations of ", in_flight,
                   " micro-batches after ", pass.ToString(), "; ",
                   ScheduleKindName(schedule.kind), " holds at most ", limit);
    }
    if (schedule.kind == ScheduleKind::kGPipe && backward_seen) {
      return Wrong("stage ", stage, " has ", pass.ToString(),
                   " after a backward pass; GPipe runs all forwards first");
    }
  }
  return absl::OkStatus();
}

// Rule 1, and that the schedule has as many passes as rule 3 asks for, so that
// what the other checks allocate is no more than what the schedule holds.
absl::Status CheckSizes(const PipelineSchedule& schedule) {
  if (!IsValid(schedule.kind)) {
    return Wrong("kind ", static_cast<int>(schedule.kind), " is not known");
  }
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "num_stages", schedule.num_stages()));
  SHOAL_RETURN_IF_ERROR(internal::CheckPositive(kCaller, "num_micro_batches",
                                                schedule.num_micro_batches));
  const int64_t directions =
      schedule.kind == ScheduleKind::kForwardOnly ? 1 : 2;
  const int64_t expected = directions * schedule.num_micro_batches;
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    const int64_t passes = static_cast<int64_t>(schedule.stages[stage].size());
    if (passes == expected) continue;
    return Wrong("stage ", stage, " has ", passes, " passes; ",
                 ScheduleKindName(schedule.kind), " has ", expected, " for ",
                 schedule.num_micro_batches, " micro-batches");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPipelineSchedule(const PipelineSchedule& schedule) {
  SHOAL_RETURN_IF_ERROR(CheckSizes(schedule));
  std::vector<StageSteps> stages;
  stages.reserve(schedule.stages.size());
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    stages.emplace_back(schedule.num_micro_batches);
    SHOAL_RETURN_IF_ERROR(CheckPasses(schedule, stage, stages.back()));
  }
  const bool backward = schedule.kind != ScheduleKind::kForwardOnly;
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    SHOAL_RETURN_IF_ERROR(CheckDependencies(stages, stage, backward));
    SHOAL_RETURN_IF_ERROR(CheckKind(schedule, stage));
  }
  const int64_t expected_steps = ScheduleSteps(
      schedule.kind, schedule.num_stages(), schedule.num_micro_batches);
  if (schedule.num_steps() != expected_steps) {
    return Wrong(
        ScheduleKindName(schedule.kind), " for ", schedule.num_stages(),
        " stages and ", schedule.num_micro_batches, " micro-batches takes ",
        expected_steps, " steps, but this one takes ", schedule.num_steps());
  }
  return absl::OkStatus();
}

}  // namespace shoal
