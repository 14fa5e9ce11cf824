// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"

namespace shoal {
namespace {

constexpr PassDirection kForward = PassDirection::kForward;
constexpr PassDirection kBackward = PassDirection::kBackward;

// Wider diagrams help nobody.
constexpr int kMaxDrawnSteps = 200;

// "F3" or "B3".
std::string PassName(const ScheduledPass& pass) {
  return absl::StrCat(pass.direction == kForward ? "F" : "B", pass.micro_batch);
}

// The size of a pipeline and of the batch that goes through it.
struct Extent {
  int stages;
  int micro_batches;
};

// The steps of the passes are closed formulas, in which each pass takes the
// earliest step that its stage's order and the passes that it needs allow.

// Without backward passes in between, micro-batch i reaches stage s after s + i
// steps. In 1F1B that holds for the first p - s micro-batches; each later one
// waits for the backward pass of micro-batch i - (p - s) and runs in the step
// after it.
int ForwardStep(ScheduleKind kind, Extent extent, int stage, int i) {
  const bool alternating = kind == ScheduleKind::kOneForwardOneBackward &&
                           i >= extent.stages - stage;
  return alternating ? stage + 2 * i : stage + i;
}

// In 1F1B the last stage runs backward i right after forward i, at step
// (p - 1 + 2i) + 1, and stage s runs it p - 1 - s steps later.
int OneForwardOneBackwardStep(Extent extent, int stage, int i) {
  return 2 * extent.stages - 1 - stage + 2 * i;
}

// In GPipe the last stage begins its backwards, with the last micro-batch, when
// the m + p - 1 steps of the forwards are over.
int GPipeBackwardStep(Extent extent, int stage, int i) {
  const int forward_steps = extent.micro_batches + extent.stages - 1;
  return forward_steps + (extent.stages - 1 - stage) +
         (extent.micro_batches - 1 - i);
}

// The passes of one stage, in their order.
std::vector<ScheduledPass> StagePasses(ScheduleKind kind, Extent extent,
                                       int stage) {
  const int m = extent.micro_batches;
  std::vector<ScheduledPass> passes;
  passes.reserve(kind == ScheduleKind::kForwardOnly ? m : 2 * m);
  const auto forward = [&](int i) {
    passes.push_back({ForwardStep(kind, extent, stage, i), kForward, i});
  };
  switch (kind) {
    case ScheduleKind::kForwardOnly:
      for (int i = 0; i < m; ++i) forward(i);
      break;
    case ScheduleKind::kGPipe:
      for (int i = 0; i < m; ++i) forward(i);
      for (int i = m - 1; i >= 0; --i) {
        passes.push_back({GPipeBackwardStep(extent, stage, i), kBackward, i});
      }
      break;
    case ScheduleKind::kOneForwardOneBackward: {
      const auto backward = [&](int i) {
        passes.push_back(
            {OneForwardOneBackwardStep(extent, stage, i), kBackward, i});
      };
      const int ahead = std::min(m, extent.stages - 1 - stage);
      for (int i = 0; i < ahead; ++i) forward(i);
      for (int i = ahead; i < m; ++i) {
        forward(i);
        backward(i - ahead);
      }
      for (int i = m - ahead; i < m; ++i) backward(i);
      break;
    }
  }
  return passes;
}

}  // namespace

bool IsValid(ScheduleKind kind) {
  return kind == ScheduleKind::kForwardOnly || kind == ScheduleKind::kGPipe ||
         kind == ScheduleKind::kOneForwardOneBackward;
}

absl::string_view ScheduleKindName(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kForwardOnly:
      return "forward-only";
    case ScheduleKind::kGPipe:
      return "GPipe";
    case ScheduleKind::kOneForwardOneBackward:
      return "1F1B";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& os, ScheduleKind kind) {
  return os << ScheduleKindName(kind);
}

absl::string_view PassDirectionName(PassDirection direction) {
  switch (direction) {
    case PassDirection::kForward:
      return "forward";
    case PassDirection::kBackward:
      return "backward";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& os, PassDirection direction) {
  return os << PassDirectionName(direction);
}

std::string ScheduledPass::ToString() const {
  return absl::StrCat(PassName(*this), "@", step);
}

int64_t PipelineSchedule::num_steps() const {
  int64_t steps = 0;
  for (const std::vector<ScheduledPass>& passes : stages) {
    for (const ScheduledPass& pass : passes) {
      steps = std::max(steps, int64_t{pass.step} + 1);
    }
  }
  return steps;
}

double PipelineSchedule::BubbleRatio() const {
  const int64_t slots = num_stages() * num_steps();
  if (slots == 0) return 0;
  int64_t idle = slots;
  for (const auto& passes : stages) idle -= static_cast<int64_t>(passes.size());
  return static_cast<double>(idle) / static_cast<double>(slots);
}

std::string PipelineSchedule::ToString() const {
  const int64_t steps = num_steps();
  std::string text =
      absl::StrCat(ScheduleKindName(kind), ": ", num_stages(), " stages, ",
                   num_micro_batches, " micro-batches, ", steps,
                   " steps, bubble ", BubbleRatio());
  if (steps > kMaxDrawnSteps || num_stages() > kMaxDrawnSteps) return text;
  // A cell is as wide as the name of the last micro-batch's pass.
  const size_t width = absl::StrCat("F", num_micro_batches - 1).size();
  for (int stage = 0; stage < num_stages(); ++stage) {
    std::vector<std::string> cells(steps, std::string(width, '.'));
    for (const ScheduledPass& pass : stages[stage]) {
      if (pass.step < 0) continue;  // Only in a schedule that is not valid.
      std::string name = PassName(pass);
      name.resize(std::max(width, name.size()), ' ');
      cells[pass.step] = std::move(name);
    }
    absl::StrAppend(&text, "\nstage ", stage, ":");
    for (const std::string& cell : cells) absl::StrAppend(&text, " ", cell);
    absl::StripTrailingAsciiWhitespace(&text);
  }
  return text;
}

int64_t ScheduleSteps(ScheduleKind kind, int num_stages,
                      int num_micro_batches) {
  const int64_t one_way = int64_t{num_micro_batches} + num_stages - 1;
  return kind == ScheduleKind::kForwardOnly ? one_way : 2 * one_way;
}

absl::StatusOr<PipelineSchedule> MakePipelineSchedule(ScheduleKind kind,
                                                      int num_stages,
                                                      int num_micro_batches) {
  constexpr absl::string_view kCaller = "MakePipelineSchedule";
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "num_stages", num_stages));
  SHOAL_RETURN_IF_ERROR(
      internal::CheckPositive(kCaller, "num_micro_batches", num_micro_batches));
  if (!IsValid(kind)) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCaller,
        ": kind must be kForwardOnly, kGPipe or kOneForwardOneBackward, got ",
        static_cast<int>(kind)));
  }
  const int64_t directions = kind == ScheduleKind::kForwardOnly ? 1 : 2;
  // Not the product, which may overflow.
  if (num_stages > kMaxScheduledPasses / directions / num_micro_batches) {
    return absl::OutOfRangeError(absl::StrCat(
        kCaller, ": ", num_stages, " stages with ", num_micro_batches,
        " micro-batches are more than ", kMaxScheduledPasses,
        " passes; schedule the batch in pieces"));
  }
  PipelineSchedule schedule;
  schedule.kind = kind;
  schedule.num_micro_batches = num_micro_batches;
  schedule.stages.reserve(num_stages);
  for (int stage = 0; stage < num_stages; ++stage) {
    schedule.stages.push_back(
        StagePasses(kind, {num_stages, num_micro_batches}, stage));
  }
  return schedule;
}

}  // namespace shoal
