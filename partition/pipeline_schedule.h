// SPDX-License-Identifier: Apache-2.0
//
// Pipeline schedules as data: which micro-batch each stage works on, in which
// direction, at each time step.
//
// A batch is cut into m micro-batches that follow each other through the p
// stages of a pipeline. Stages are numbered in the forward direction, stage 0
// embeds; pipeline_partition.h says which rank that is. In each time step a
// stage runs one pass of one micro-batch, or idles. A pass may begin in the
// step after the one in which what it needs was finished:
//
//   forward i on stage s    needs forward i on stage s - 1
//   backward i on stage s   needs backward i on stage s + 1, and its own
//   forward
//
// The schedules:
//
//   kForwardOnly  inference: micro-batches one after the other. m + p - 1
//   steps. kGPipe        all forwards, then all backwards in the opposite order
//                 (Huang et al., "GPipe", 2019, figure 2c). 2 (m + p - 1)
//                 steps; a stage keeps the activations of all m micro-batches.
//   kOneForwardOneBackward
//                 1F1B: stage s runs min(m, p - 1 - s) forwards ahead, then one
//                 forward and one backward in turn, then the backwards that are
//                 left (PipeDream-Flush: Narayanan et al., "Memory-Efficient
//                 Pipeline-Parallel DNN Training", 2021; the non-interleaved
//                 schedule of Megatron-LM, Narayanan et al., "Efficient
//                 Large-Scale Language Model Training on GPU Clusters", 2021).
//                 2 (m + p - 1) steps; stage s keeps the activations of at most
//                 min(m, p - s) micro-batches.
//
// In all three a stage idles in (p - 1) / (m + p - 1) of the steps: the bubble.
// (Megatron-LM's figure, (p - 1) / m, is the same time in relation to the
// useful one.) Steps have equal length here; where a backward pass takes longer
// than a forward one, the ratio is the same.
//
// Values without an owner; const member functions may be called from any
// thread.
#ifndef SHOAL_PARTITION_PIPELINE_SCHEDULE_H_
#define SHOAL_PARTITION_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal {

enum class ScheduleKind { kForwardOnly, kGPipe, kOneForwardOneBackward };

// Whether `kind` is one of the enumerators, and not a number cast to the type.
bool IsValid(ScheduleKind kind);
// "forward-only", "GPipe" or "1F1B"; "unknown" for a value that is not valid.
absl::string_view ScheduleKindName(ScheduleKind kind);
std::ostream& operator<<(std::ostream& os, ScheduleKind kind);

enum class PassDirection { kForward, kBackward };

// "forward" or "backward"; "unknown" for a value that is none of the
// enumerators.
absl::string_view PassDirectionName(PassDirection direction);
std::ostream& operator<<(std::ostream& os, PassDirection direction);

// One pass of one micro-batch on one stage.
struct ScheduledPass {
  int step = 0;  // Time step, from 0.
  PassDirection direction = PassDirection::kForward;
  int micro_batch = 0;

  // "F3@5": forward of micro-batch 3 at step 5; "B3@5": its backward.
  std::string ToString() const;

  friend bool operator==(const ScheduledPass&, const ScheduledPass&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ScheduledPass& pass) {
    return H::combine(std::move(h), pass.step, pass.direction,
                      pass.micro_batch);
  }
  friend std::ostream& operator<<(std::ostream& os, const ScheduledPass& pass) {
    return os << pass.ToString();
  }
};

// A schedule. MakePipelineSchedule returns valid ones; one from elsewhere is
// checked with VerifyPipelineSchedule (pipeline_schedule_verifier.h).
struct PipelineSchedule {
  ScheduleKind kind = ScheduleKind::kForwardOnly;
  int num_micro_batches = 0;
  // stages[s]: the passes of stage s in the order of their steps. It idles in
  // the steps that are not listed.
  std::vector<std::vector<ScheduledPass>> stages;

  int num_stages() const { return static_cast<int>(stages.size()); }
  // The number of steps up to the last pass of any stage.
  int64_t num_steps() const;

  // The share of idle steps over all stages, in [0, 1). 0 for a schedule
  // without passes.
  double BubbleRatio() const;

  // A line for each stage and a column for each step:
  //
  //   1F1B: 2 stages, 3 micro-batches, 8 steps, bubble 0.25
  //   stage 0: F0 F1 .. B0 F2 B1 .. B2
  //   stage 1: .. F0 B0 F1 B1 F2 B2 ..
  //
  // Of a schedule of more than 200 steps only the first of these lines.
  std::string ToString() const;

  friend bool operator==(const PipelineSchedule&,
                         const PipelineSchedule&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PipelineSchedule& schedule) {
    return H::combine(std::move(h), schedule.kind, schedule.num_micro_batches,
                      schedule.stages);
  }
  friend std::ostream& operator<<(std::ostream& os,
                                  const PipelineSchedule& schedule) {
    return os << schedule.ToString();
  }
};

// The largest number of passes that a schedule may have: 64 stages, each with
// the forwards and backwards of 32,768 micro-batches. A larger batch is
// scheduled in pieces.
inline constexpr int64_t kMaxScheduledPasses = int64_t{1} << 22;

// The schedule of `kind` for `num_micro_batches` micro-batches on `num_stages`
// stages. kInvalidArgument if a number is not positive or kind is not an
// enumerator, kOutOfRange if there were more than kMaxScheduledPasses passes.
absl::StatusOr<PipelineSchedule> MakePipelineSchedule(ScheduleKind kind,
                                                      int num_stages,
                                                      int num_micro_batches);

// The number of steps of a valid schedule: (m + p - 1), or twice that with
// backward passes. REQUIRES: both numbers are positive and kind is an
// enumerator.
int64_t ScheduleSteps(ScheduleKind kind, int num_stages, int num_micro_batches);

}  // namespace shoal

#endif  // SHOAL_PARTITION_PIPELINE_SCHEDULE_H_
