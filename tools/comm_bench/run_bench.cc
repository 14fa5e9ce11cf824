// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/run_bench.h"

#include <cstdint>
#include <new>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/trace.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tools/comm_bench/bandwidth_plot.h"
#include "shoal/tools/comm_bench/collectives.h"
#include "shoal/tools/comm_bench/flags.h"
#include "shoal/tools/comm_bench/measure.h"
#include "shoal/tools/comm_bench/pattern.h"
#include "shoal/tools/comm_bench/results.h"
#include "shoal/tools/common/files.h"

namespace shoal::comm_bench {
namespace {

class Bench {
 public:
  // Rank 0 shows what it does; the other ranks have nowhere to.
  Bench(Communicator* communicator, const Flags& flags, std::ostream* out,
        Results* results)
      : communicator_(communicator),
        flags_(flags),
        out_(out),
        results_(results) {}

  // Rank 0 gets the trace, if there is to be one.
  absl::Status Run(std::string* trace) {
    if (!flags_.trace.empty()) communicator_->StartTrace();
    results_->world_size = communicator_->world_size();
    Show(absl::StrCat(
        "# ranks ", communicator_->world_size(), " minBytes ", flags_.min_bytes,
        " maxBytes ", flags_.max_bytes, " step: ",
        flags_.step_factor > 1 ? flags_.step_factor : flags_.step_bytes,
        flags_.step_factor > 1 ? "(factor)" : "(bytes)",
        " warmup iters: ", flags_.warmups, " iters: ",
        flags_.iterations > 0 ? absl::StrCat(flags_.iterations) : "auto",
        " validation: ", flags_.checks, " wire: ", WireFormatName(flags_.wire),
        "\n", "# time: median of the iterations, on the slowest rank\n"));
    for (const Collective* collective : flags_.collectives) {
      if (communicator_->world_size() < collective->min_world_size) {
        Show(absl::StrCat("#\n# ", collective->name, ": skipped, as it takes ",
                          collective->min_world_size, " ranks\n"));
        continue;
      }
      SHOAL_RETURN_IF_ERROR(RunCollective(*collective));
    }
    Show(FooterText(*results_));
    if (!flags_.trace.empty()) {
      SHOAL_ASSIGN_OR_RETURN(*trace, GatherTrace(communicator_));
    }
    // The last word of all, so that no rank leaves while another may still
    // fail.
    return communicator_->Barrier();
  }

 private:
  void Show(const std::string& text) {
    if (out_ != nullptr) *out_ << text << std::flush;
  }

  absl::Status RunCollective(const Collective& collective) {
    Show(absl::StrCat("#\n# ", collective.name, "\n", HeaderText()));
    const bool has_data = collective.output != Share::kNothing;
    for (const DType dtype : has_data && !collective.is_string
                                 ? flags_.dtypes
                                 : std::vector<DType>{DType::kU8}) {
      for (const ReduceOp op : collective.has_op
                                   ? flags_.ops
                                   : std::vector<ReduceOp>{ReduceOp::kSum}) {
        if (collective.has_op && !ReductionTakes(op, dtype, flags_.wire)) {
          continue;
        }
        SHOAL_RETURN_IF_ERROR(RunSeries(collective, dtype, op));
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunSeries(const Collective& collective, DType dtype,
                         ReduceOp op) {
    MeasureOptions options;
    options.dtype = dtype;
    options.op = op;
    options.root = collective.has_root ? flags_.root : 0;
    options.algorithm = flags_.algorithm;
    options.wire = flags_.wire;
    options.iterations = flags_.iterations;
    options.warmups = flags_.warmups;
    options.checks = flags_.checks;
    options.unaligned = flags_.unaligned;
    options.halves = flags_.halves;

    results_->series.emplace_back();
    Series& series = results_->series.back();
    const bool has_data = collective.output != Share::kNothing;
    series.collective = std::string(collective.name);
    series.dtype = has_data ? absl::StrCat(DTypeName(dtype)) : "none";
    series.op = collective.has_op ? absl::StrCat(ReduceOpName(op)) : "none";
    series.root = collective.has_root ? flags_.root : -1;
    series.algorithm = absl::StrCat(AlgorithmName(flags_.algorithm));
    series.wire = absl::StrCat(WireFormatName(flags_.wire));
    const Pattern pattern(dtype, op, communicator_->world_size(), flags_.wire);
    const std::vector<std::int64_t> sizes =
        has_data ? SweepSizes(flags_) : std::vector<std::int64_t>{0};
    for (const std::int64_t bytes : sizes) {
      SHOAL_ASSIGN_OR_RETURN(
          Row row, Measure(communicator_, collective, bytes, options, pattern));
      Show(RowText(series, row));
      series.rows.push_back(std::move(row));
    }
    return absl::OkStatus();
  }

  Communicator* const communicator_;
  const Flags& flags_;
  std::ostream* const out_;
  Results* const results_;
};

absl::Status WriteFiles(const Flags& flags, Results results,
                        const absl::Status& outcome) {
  absl::Status status;
  if (!flags.json.empty()) {
    status.Update(tools::WriteFile(flags.json, ResultsJson(results, outcome)));
  }
  if (!flags.svg.empty() && outcome.ok()) {
    const absl::StatusOr<std::string> plot =
        BandwidthPlot({{"", std::move(results)}});
    status.Update(plot.ok() ? tools::WriteFile(flags.svg, *plot)
                            : plot.status());
  }
  return status;
}

}  // namespace

absl::Status RunBench(Communicator* communicator, const Flags& flags,
                      std::ostream& out) {
  const bool reports = communicator->rank() == 0;
  if (reports) {
    // Now rather than after a long run. Old figures must not pass for new ones.
    for (const std::string& path : {flags.json, flags.svg, flags.trace}) {
      if (path.empty()) continue;
      if (absl::Status status = tools::WriteFile(path, ""); !status.ok()) {
        communicator->Abort(status);
        return status;
      }
    }
  }
  Results results;
  std::string trace;
  absl::Status status;
  try {
    status = Bench(communicator, flags, reports ? &out : nullptr, &results)
                 .Run(&trace);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "rank ", communicator->rank(), " got no more memory; --maxbytes ",
        flags.max_bytes, " asks for two buffers of that size per rank"));
    communicator->Abort(status);
  }
  if (status.ok()) status = CheckResults(results);
  if (reports) {
    if (!trace.empty()) status.Update(tools::WriteFile(flags.trace, trace));
    status.Update(WriteFiles(flags, std::move(results), status));
  }
  return status;
}

}  // namespace shoal::comm_bench
