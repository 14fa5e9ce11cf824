// SPDX-License-Identifier: Apache-2.0
//
// Proves that a pipeline schedule, wherever it comes from, can be run and is
// what its kind promises. Pure; safe from any thread.
#ifndef SHOAL_PARTITION_PIPELINE_SCHEDULE_VERIFIER_H_
#define SHOAL_PARTITION_PIPELINE_SCHEDULE_VERIFIER_H_

#include "absl/status/status.h"
#include "shoal/partition/pipeline_schedule.h"

namespace shoal {

// OK if all of this holds, else kInvalidArgument naming the stage, the step and
// the micro-batch at fault:
//
// 1. There is at least one stage and one micro-batch, and the kind is known.
// 2. Each stage has its passes in strictly rising steps, from 0 on: at most one
//    a step.
// 3. Each stage runs each micro-batch exactly once forward, and exactly once
//    backward, or never backward if the kind is kForwardOnly.
// 4. Forward i on stage s comes in a later step than on stage s - 1; backward i
//    on stage s in a later step than on stage s + 1 and than its own forward.
// 5. kGPipe: no stage runs a forward after a backward. kOneForwardOneBackward:
//    stage s never holds the activations of more than min(m, p - s)
//    micro-batches, from the step of the forward until after the step of the
//    backward.
// 6. The last pass is in step ScheduleSteps() - 1: the bubble is the promised
//    one.
//
// Takes time and memory proportional to the number of passes.
absl::Status VerifyPipelineSchedule(const PipelineSchedule& schedule);

}  // namespace shoal

#endif  // SHOAL_PARTITION_PIPELINE_SCHEDULE_VERIFIER_H_
