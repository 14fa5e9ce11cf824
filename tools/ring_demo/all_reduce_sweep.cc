// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/all_reduce_sweep.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tools/common/sampling.h"
#include "shoal/tools/common/text_table.h"
#include "shoal/tools/common/units.h"

namespace shoal::ring_demo {
namespace {

using tools::FormatBandwidth;
using tools::FormatBytes;
using tools::FormatSeconds;
using tools::TextTable;

// What one size may take altogether, where it takes that long at all.
constexpr double kBudgetSeconds = 0.2;
constexpr std::int64_t kMaxRepetitions = 200;

// SweepInput is a base and, times the rank, a step. Neither repeats with the
// powers of two at which algorithms cut, and the step goes up and down, so that
// most elements in a wrong place are wrong elements.
std::int64_t SweepBase(std::int64_t i) { return i % 1021; }
std::int64_t SweepStep(std::int64_t i) { return i * i % 11 + 1; }

TextTable SweepTable() {
  using Align = TextTable::Align;
  return TextTable({{"size", Align::kRight, 8},
                    {"elements", Align::kRight, 9},
                    {"algorithm", Align::kLeft, 18},
                    {"runs"},
                    {"median", Align::kRight, 8},
                    {"bus bandwidth"},
                    {"wrong"}});
}

// One all-reduce, from filling the vector to counting what is wrong in it.
struct Repetition {
  double all_seconds = 0;
  double call_seconds = 0;
  std::int64_t wrong_elements = 0;
};

absl::StatusOr<Repetition> RunOnce(Communicator* communicator,
                                   const CallOptions& options,
                                   std::vector<float>* vector) {
  const std::int64_t count = static_cast<std::int64_t>(vector->size());
  const Stopwatch stopwatch;
  for (std::int64_t i = 0; i < count; ++i) {
    (*vector)[i] = SweepInput(communicator->rank(), i);
  }
  // So that none is timed while it waits for another to fill its vector.
  SHOAL_RETURN_IF_ERROR(communicator->Barrier());
  const Stopwatch call;
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
      BufferOf(absl::MakeSpan(*vector)), ReduceOp::kSum, options));
  Repetition result;
  result.call_seconds = call.Seconds();
  result.wrong_elements = CountWrongSums(*vector, communicator->world_size());
  result.all_seconds = stopwatch.Seconds();
  return result;
}

}  // namespace

std::vector<std::int64_t> SweepSizes(std::int64_t max_bytes) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = sizeof(float); bytes < max_bytes; bytes *= 4) {
    sizes.push_back(bytes);
  }
  sizes.push_back(max_bytes);
  return sizes;
}

float SweepInput(int rank, std::int64_t i) {
  return static_cast<float>(SweepBase(i) + rank * SweepStep(i));
}

float SweepSum(int world_size, std::int64_t i) {
  const std::int64_t sum_of_ranks =
      std::int64_t{world_size} * (world_size - 1) / 2;
  return static_cast<float>(world_size * SweepBase(i) +
                            sum_of_ranks * SweepStep(i));
}

std::int64_t CountWrongSums(absl::Span<const float> sums, int world_size) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!(sums[i] == SweepSum(world_size, i))) ++wrong;
  }
  return wrong;
}

absl::StatusOr<AllReduceFigures> MeasureAllReduce(Communicator* communicator,
                                                  std::int64_t bytes) {
  AllReduceFigures figures;
  figures.count = bytes / static_cast<std::int64_t>(sizeof(float));
  figures.bytes = figures.count * static_cast<std::int64_t>(sizeof(float));
  CallSignature signature;
  signature.kind = CallKind::kAllReduce;
  signature.dtype = DType::kF32;
  signature.count = figures.count;
  // Asked for by name, so that what is shown is what ran.
  SHOAL_ASSIGN_OR_RETURN(
      figures.algorithm,
      ChooseAlgorithm(signature, communicator->world_size(), {}));
  CallOptions options;
  options.algorithm = figures.algorithm;

  // The first run opens what is opened at first use, and shows how many more
  // there is time for. Rank 0 decides for all.
  std::vector<float> vector(figures.count);
  SHOAL_ASSIGN_OR_RETURN(const Repetition first,
                         RunOnce(communicator, options, &vector));
  figures.repetitions = tools::IterationsInBudget(
      first.all_seconds, kBudgetSeconds, kMaxRepetitions);
  SHOAL_RETURN_IF_ERROR(communicator->Broadcast(
      BufferOf(absl::MakeSpan(&figures.repetitions, 1)), /*root=*/0));

  figures.wrong_elements = first.wrong_elements;
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < figures.repetitions; ++i) {
    SHOAL_ASSIGN_OR_RETURN(const Repetition repetition,
                           RunOnce(communicator, options, &vector));
    seconds.push_back(repetition.call_seconds);
    figures.wrong_elements += repetition.wrong_elements;
  }
  figures.seconds = tools::Median(std::move(seconds));
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
      BufferOf(absl::MakeSpan(&figures.seconds, 1)), ReduceOp::kMax));
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
      BufferOf(absl::MakeSpan(&figures.wrong_elements, 1)), ReduceOp::kSum));
  figures.bus_bandwidth = tools::AllReduceBusBandwidth(
      figures.bytes, figures.seconds, communicator->world_size());
  return figures;
}

std::string AllReduceHeader() { return SweepTable().HeaderLine(); }

std::string AllReduceLine(const AllReduceFigures& figures) {
  return SweepTable().Line(
      {FormatBytes(figures.bytes), absl::StrCat(figures.count),
       absl::StrCat(AlgorithmName(figures.algorithm)),
       absl::StrCat(figures.repetitions), FormatSeconds(figures.seconds),
       // One rank has no bus.
       figures.bus_bandwidth > 0 ? FormatBandwidth(figures.bus_bandwidth) : "-",
       absl::StrCat(figures.wrong_elements)});
}

}  // namespace shoal::ring_demo
