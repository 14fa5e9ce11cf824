// SPDX-License-Identifier: Apache-2.0
//
// Activations on their way through the blocks of a pipeline.
//
// Micro-batches enter at the highest rank, which "embeds" them, and pass from
// block to block down to rank 0. A layer is a known function of integers that
// f32 holds exactly, and one in which order matters: had any layer been left
// out, applied twice, or applied before its turn, the outcome would differ.
// Rank 0 holds what arrives against all layers applied in one place.

#ifndef SHOAL_TOOLS_RING_DEMO_PIPELINE_PASS_H_
#define SHOAL_TOOLS_RING_DEMO_PIPELINE_PASS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/communicator.h"
#include "shoal/partition/range.h"

namespace shoal::ring_demo {

// What one rank did, by its own account.
struct StageFigures {
  int rank = 0;
  Range layers;
  std::int64_t received_bytes = 0;
  std::int64_t layers_applied = 0;  // over all micro-batches
  std::int64_t sent_bytes = 0;
};

struct PipelineFigures {
  std::int64_t micro_batches = 0;
  std::int64_t tokens = 0;  // in a micro-batch
  std::int64_t hidden = 0;  // elements of a token's activation
  // From the first embedding to the last outcome, on rank 0.
  double seconds = 0;
  std::int64_t wrong_elements = 0;
  std::vector<StageFigures> stages;  // in the order of the flow
};

// Collective. All ranks get the same figures.
absl::StatusOr<PipelineFigures> RunPipelinePass(Communicator* communicator,
                                                std::int64_t num_layers);

// For people: a line about the whole, and the table.
std::string PipelineText(const PipelineFigures& figures);

// The parts that know nothing of a communicator.

// Element i of an embedded micro-batch.
float EmbeddedActivation(std::int64_t micro_batch, std::int64_t i);

// One layer's work on one element: 2 x + layer + 1, modulo 8191.
float ApplyLayer(std::int64_t layer, float activation);

void ApplyLayers(const Range& layers, absl::Span<float> activations);

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_PIPELINE_PASS_H_
