// SPDX-License-Identifier: Apache-2.0
//
// All figures of one run.

#ifndef SHOAL_TOOLS_RING_DEMO_REPORT_H_
#define SHOAL_TOOLS_RING_DEMO_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"
#include "shoal/tools/ring_demo/all_reduce_sweep.h"
#include "shoal/tools/ring_demo/parallel_product.h"
#include "shoal/tools/ring_demo/pipeline_pass.h"
#include "shoal/tools/ring_demo/ranks.h"

namespace shoal::ring_demo {

struct Report {
  int world_size = 0;
  std::int64_t layers = 0;
  std::int64_t max_bytes = 0;
  std::vector<RankInfo> ranks;
  std::vector<AllReduceFigures> all_reduces;
  PipelineFigures pipeline;
  std::vector<ProductFigures> products;
};

// OK, or `DATA_LOSS` that names the first part in which elements were wrong.
absl::Status CheckReport(const Report& report);

// The report and what came of it as a JSON document. Sizes are in bytes, times
// in seconds, layers and shards half-open ranges. After an error it holds what
// was known by then.
std::string ReportJson(const Report& report, const absl::Status& result);

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_REPORT_H_
