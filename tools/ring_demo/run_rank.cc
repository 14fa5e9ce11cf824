// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/run_rank.h"

#include <cstdint>
#include <new>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/communicator.h"
#include "shoal/partition/tensor_shard.h"
#include "shoal/tools/common/files.h"
#include "shoal/tools/ring_demo/all_reduce_sweep.h"
#include "shoal/tools/ring_demo/flags.h"
#include "shoal/tools/ring_demo/parallel_product.h"
#include "shoal/tools/ring_demo/pipeline_pass.h"
#include "shoal/tools/ring_demo/ranks.h"
#include "shoal/tools/ring_demo/report.h"

namespace shoal::ring_demo {
namespace {

std::string Counted(std::int64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// "rank 3 -> 2 -> 1 -> 0", with the middle left out of long ones.
std::string FlowText(int world_size) {
  std::string text = absl::StrCat("rank ", world_size - 1);
  for (int rank = world_size - 2; rank >= 0; --rank) {
    if (world_size > 8 && rank == world_size - 3) {
      absl::StrAppend(&text, " -> ...");
      rank = 1;
      continue;
    }
    absl::StrAppend(&text, " -> ", rank);
  }
  return text;
}

}  // namespace

absl::Status RunSections(Communicator* communicator, const Flags& flags,
                         std::ostream& out, Report* report) {
  const int world = communicator->world_size();
  const auto show = [communicator, &out](const std::string& text) {
    if (communicator->rank() == 0) out << text << std::flush;
  };
  report->world_size = world;
  report->layers = flags.layers;
  report->max_bytes = flags.max_bytes;

  SHOAL_ASSIGN_OR_RETURN(
      report->ranks, GatherRanks(communicator, flags.layers, flags.max_bytes));
  show(absl::StrCat("Who owns what: ", Counted(flags.layers, "layer"), " on ",
                    Counted(world, "rank"), "\n", RanksText(report->ranks)));

  show(absl::StrCat("\nAll-reduce: f32, sum, in place\n", AllReduceHeader()));
  for (const std::int64_t bytes : SweepSizes(flags.max_bytes)) {
    SHOAL_ASSIGN_OR_RETURN(const AllReduceFigures figures,
                           MeasureAllReduce(communicator, bytes));
    report->all_reduces.push_back(figures);
    show(AllReduceLine(figures));
  }

  SHOAL_ASSIGN_OR_RETURN(report->pipeline,
                         RunPipelinePass(communicator, flags.layers));
  show(absl::StrCat("\nPipeline: activations, ", FlowText(world), "\n",
                    PipelineText(report->pipeline)));

  for (const ShardDim dim : {ShardDim::kColumn, ShardDim::kRow}) {
    SHOAL_ASSIGN_OR_RETURN(const ProductFigures figures,
                           RunParallelProduct(communicator, dim));
    report->products.push_back(figures);
  }
  show(absl::StrCat("\nTensor parallelism: Y = X W\n",
                    ProductsText(report->products), "\n"));
  // The last word of all, so that no rank leaves while another may still fail.
  SHOAL_RETURN_IF_ERROR(communicator->Barrier());
  return CheckReport(*report);
}

absl::Status RunRank(Communicator* communicator, const Flags& flags,
                     std::ostream& out) {
  const bool writes_json = communicator->rank() == 0 && !flags.json.empty();
  if (writes_json) {
    // Now rather than after a long run. Old figures must not pass for new ones.
    if (absl::Status status = tools::WriteFile(flags.json, ""); !status.ok()) {
      communicator->Abort(status);
      return status;
    }
  }
  Report report;
  absl::Status status;
  try {
    status = RunSections(communicator, flags, out, &report);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "rank ", communicator->rank(), " got no more memory; --max_bytes ",
        flags.max_bytes, " asks for several buffers of that size per rank"));
    communicator->Abort(status);
  }
  if (writes_json) {
    status.Update(tools::WriteFile(flags.json, ReportJson(report, status)));
  }
  return status;
}

}  // namespace shoal::ring_demo
