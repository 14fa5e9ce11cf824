// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/pipeline_pass.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/pipeline.h"
#include "shoal/partition/pipeline_partition.h"
#include "shoal/partition/range.h"
#include "shoal/tools/common/text_table.h"
#include "shoal/tools/common/units.h"
#include "shoal/tools/ring_demo/ranks.h"

namespace shoal::ring_demo {
namespace {

using tools::FormatBytes;
using tools::FormatSeconds;
using tools::TextTable;

constexpr std::int64_t kMicroBatches = 4;
constexpr std::int64_t kTokens = 8;
constexpr std::int64_t kHidden = 512;

// A prime, so that doubling loses nothing; 2 * 8190 plus a layer's number is
// far from where f32 stops counting.
constexpr std::int64_t kModulus = 8191;

void Embed(std::int64_t micro_batch, absl::Span<float> activations) {
  for (std::size_t i = 0; i < activations.size(); ++i) {
    activations[i] = EmbeddedActivation(micro_batch, i);
  }
}

// How many elements are not what all layers make of the embedding.
std::int64_t CountWrong(std::int64_t micro_batch, std::int64_t num_layers,
                        absl::Span<const float> outcome) {
  std::vector<float> expected(outcome.size());
  Embed(micro_batch, absl::MakeSpan(expected));
  ApplyLayers({0, num_layers}, absl::MakeSpan(expected));
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < outcome.size(); ++i) {
    if (!(outcome[i] == expected[i])) ++wrong;
  }
  return wrong;
}

// This rank's part, for all micro-batches.
absl::Status RunStage(Communicator* communicator, std::int64_t num_layers,
                      StageFigures* mine, std::int64_t* wrong_elements) {
  SHOAL_ASSIGN_OR_RETURN(PipelineChannel channel,
                         PipelineChannel::Create(communicator));
  std::vector<float> activations(kTokens * kHidden);
  const absl::Span<float> span = absl::MakeSpan(activations);
  const std::int64_t bytes = span.size() * sizeof(float);
  for (std::int64_t batch = 0; batch < kMicroBatches; ++batch) {
    if (channel.is_first_stage()) {
      Embed(batch, span);
    } else {
      SHOAL_RETURN_IF_ERROR(channel.RecvActivations(BufferOf(span), batch));
      mine->received_bytes += bytes;
    }
    ApplyLayers(mine->layers, span);
    mine->layers_applied += mine->layers.size();
    if (channel.is_last_stage()) {
      *wrong_elements += CountWrong(batch, num_layers, span);
    } else {
      SHOAL_RETURN_IF_ERROR(channel.SendActivations(BufferOf(span), batch));
      mine->sent_bytes += bytes;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StageFigures>> GatherStages(
    Communicator* communicator, const StageFigures& mine) {
  constexpr int kNumbers = 5;
  const int world = communicator->world_size();
  const std::int64_t numbers[kNumbers] = {mine.layers.begin, mine.layers.end,
                                          mine.received_bytes,
                                          mine.layers_applied, mine.sent_bytes};
  std::vector<std::int64_t> all(kNumbers * world);
  SHOAL_RETURN_IF_ERROR(communicator->AllGather(
      BufferOf(absl::MakeConstSpan(numbers)), BufferOf(absl::MakeSpan(all))));
  std::vector<StageFigures> stages;
  for (int rank = world - 1; rank >= 0; --rank) {
    const std::int64_t* theirs = all.data() + kNumbers * rank;
    stages.push_back({.rank = rank,
                      .layers = {theirs[0], theirs[1]},
                      .received_bytes = theirs[2],
                      .layers_applied = theirs[3],
                      .sent_bytes = theirs[4]});
  }
  return stages;
}

}  // namespace

float EmbeddedActivation(std::int64_t micro_batch, std::int64_t i) {
  return static_cast<float>((1009 * micro_batch + 7 * i + 1) % kModulus);
}

float ApplyLayer(std::int64_t layer, float activation) {
  const std::int64_t x = static_cast<std::int64_t>(activation);
  return static_cast<float>((2 * x + layer + 1) % kModulus);
}

void ApplyLayers(const Range& layers, absl::Span<float> activations) {
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
    for (float& activation : activations) {
      activation = ApplyLayer(layer, activation);
    }
  }
}

absl::StatusOr<PipelineFigures> RunPipelinePass(Communicator* communicator,
                                                std::int64_t num_layers) {
  PipelineFigures figures;
  figures.micro_batches = kMicroBatches;
  figures.tokens = kTokens;
  figures.hidden = kHidden;
  StageFigures mine;
  mine.rank = communicator->rank();
  SHOAL_ASSIGN_OR_RETURN(mine.layers,
                         PipelineLayerRange(num_layers, communicator->rank(),
                                            communicator->world_size()));
  SHOAL_RETURN_IF_ERROR(communicator->Barrier());
  const Stopwatch stopwatch;
  SHOAL_RETURN_IF_ERROR(
      RunStage(communicator, num_layers, &mine, &figures.wrong_elements));
  figures.seconds = stopwatch.Seconds();
  // Rank 0 saw the outcome, and when.
  SHOAL_RETURN_IF_ERROR(communicator->Broadcast(
      BufferOf(absl::MakeSpan(&figures.seconds, 1)), /*root=*/0));
  SHOAL_RETURN_IF_ERROR(communicator->Broadcast(
      BufferOf(absl::MakeSpan(&figures.wrong_elements, 1)), /*root=*/0));
  SHOAL_ASSIGN_OR_RETURN(figures.stages, GatherStages(communicator, mine));
  return figures;
}

std::string PipelineText(const PipelineFigures& figures) {
  const std::int64_t batch_bytes = figures.tokens * figures.hidden *
                                   static_cast<std::int64_t>(sizeof(float));
  std::string text = absl::StrCat(
      "  ", figures.micro_batches, " micro-batches of ", figures.tokens, " x ",
      figures.hidden, " f32 (", FormatBytes(batch_bytes), ") in ",
      FormatSeconds(figures.seconds), ", ", figures.wrong_elements,
      " wrong elements\n");
  const TextTable table({{"rank"},
                         {"from", TextTable::Align::kLeft, 7},
                         {"received", TextTable::Align::kRight, 9},
                         {"layers", TextTable::Align::kRight, 9},
                         {"applied"},
                         {"sent", TextTable::Align::kRight, 9},
                         {"to", TextTable::Align::kLeft, 7}});
  absl::StrAppend(&text, table.HeaderLine());
  for (const StageFigures& stage : figures.stages) {
    const bool is_first = &stage == &figures.stages.front();
    const bool is_last = &stage == &figures.stages.back();
    absl::StrAppend(
        &text,
        table.Line({absl::StrCat(stage.rank),
                    is_first ? "tokens" : absl::StrCat("rank ", stage.rank + 1),
                    is_first ? "-" : FormatBytes(stage.received_bytes),
                    LayersText(stage.layers),
                    absl::StrCat(stage.layers_applied),
                    is_last ? "-" : FormatBytes(stage.sent_bytes),
                    is_last ? "head" : absl::StrCat("rank ", stage.rank - 1)}));
  }
  return text;
}

}  // namespace shoal::ring_demo
