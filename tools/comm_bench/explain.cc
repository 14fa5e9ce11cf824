// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/explain.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tools/comm_bench/collectives.h"
#include "shoal/tools/comm_bench/flags.h"
#include "shoal/tools/common/text_table.h"
#include "shoal/tools/common/units.h"

namespace shoal::comm_bench {
namespace {

using tools::TextTable;

TextTable SizeTable() {
  using Align = TextTable::Align;
  return TextTable({{"size", Align::kRight, 10},
                    {"elements", Align::kRight, 12},
                    {"algorithm", Align::kLeft, 20}});
}

// The sizes of one table.
absl::StatusOr<std::string> SizesText(const Flags& flags, CallSignature call,
                                      const Collective& collective,
                                      int world_size,
                                      const AlgorithmPolicy& policy) {
  const TextTable table = SizeTable();
  std::string text = table.HeaderLine();
  const std::vector<std::int64_t> sizes = collective.output == Share::kNothing
                                              ? std::vector<std::int64_t>{0}
                                              : SweepSizes(flags);
  for (const std::int64_t bytes : sizes) {
    const std::int64_t count = collective.CountFor(
        bytes / static_cast<std::int64_t>(DTypeSize(call.dtype)), world_size);
    call.count = count;
    if (call.kind == CallKind::kAllGatherV) call.count *= world_size;
    if (call.kind == CallKind::kAllToAllV) call.count = 0;
    SHOAL_ASSIGN_OR_RETURN(const Algorithm algorithm,
                           ChooseAlgorithm(call, world_size, policy));
    absl::StrAppend(&text,
                    table.Line({tools::FormatBytes(bytes), absl::StrCat(count),
                                absl::StrCat(AlgorithmName(algorithm))}));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> ExplainText(const Flags& flags, int world_size,
                                        const AlgorithmPolicy& policy) {
  std::string text;
  for (const Collective* collective : flags.collectives) {
    if (!collective->kind.has_value()) {
      absl::StrAppend(&text, "# ", collective->name,
                      ": messages, which have no choice of algorithms\n");
      continue;
    }
    CallSignature call;
    call.kind = *collective->kind;
    call.algorithm = flags.algorithm;
    call.wire = flags.wire;
    if (collective->has_root) call.root = flags.root;
    const std::vector<DType> dtypes =
        collective->output == Share::kNothing || collective->is_string
            ? std::vector<DType>{call.dtype}
            : flags.dtypes;
    const std::vector<ReduceOp> ops =
        collective->has_op ? flags.ops : std::vector<ReduceOp>{call.op};
    for (const DType dtype : dtypes) {
      for (const ReduceOp op : ops) {
        if (collective->has_op && !ReductionTakes(op, dtype, flags.wire)) {
          continue;
        }
        call.dtype = dtype;
        call.op = op;
        absl::StrAppend(&text, "# ", collective->name, ", ", DTypeName(dtype));
        if (collective->has_op) absl::StrAppend(&text, " ", ReduceOpName(op));
        absl::StrAppend(&text, ", ", world_size,
                        world_size == 1 ? " rank\n" : " ranks\n");
        SHOAL_ASSIGN_OR_RETURN(
            const std::string sizes,
            SizesText(flags, call, *collective, world_size, policy));
        absl::StrAppend(&text, sizes);
      }
    }
  }
  return text;
}

}  // namespace shoal::comm_bench
