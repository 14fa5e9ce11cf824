// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/report.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/partition/pipeline_partition.h"
#include "shoal/partition/tensor_shard.h"

namespace shoal::ring_demo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Report SmallReport() {
  Report report;
  report.world_size = 2;
  report.layers = 5;
  report.max_bytes = 16;
  report.ranks.push_back({1, "a \"host\"", 42, {0, 3}, BlockRole::kFirst});
  report.all_reduces.push_back({16, 4, Algorithm::kRing, 3, 0.25, 64, 0});
  report.pipeline.stages.push_back({1, {0, 3}, 0, 12, 64});
  report.products.push_back(
      {ShardDim::kColumn, 2, 3, 5, {{0, 2}, {2, 5}}, 0.5, 0});
  report.products.push_back({ShardDim::kRow, 2, 3, 5, {{0, 1}, {1, 3}}, 1, 0});
  return report;
}

TEST(CheckReportTest, WrongElementsAnywhereAreAnError) {
  SHOAL_EXPECT_OK(CheckReport(SmallReport()));
  Report report = SmallReport();
  report.all_reduces[0].wrong_elements = 7;
  EXPECT_THAT(CheckReport(report), StatusIs(absl::StatusCode::kDataLoss,
                                            AllOf(HasSubstr("7 wrong elements"),
                                                  HasSubstr("16 B"))));
  report = SmallReport();
  report.pipeline.wrong_elements = 1;
  EXPECT_THAT(CheckReport(report),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("1 wrong element in the pipeline pass")));
  report = SmallReport();
  report.products[1].wrong_elements = 2;
  EXPECT_THAT(CheckReport(report),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("row-parallel")));
}

TEST(ReportJsonTest, HoldsEveryFigure) {
  EXPECT_EQ(ReportJson(SmallReport(), absl::OkStatus()), R"({
  "ok": true,
  "error": "",
  "world_size": 2,
  "layers": 5,
  "max_bytes": 16,
  "ranks": [
    {
      "rank": 1,
      "host": "a \"host\"",
      "pid": 42,
      "layers": [
        0,
        3
      ],
      "role": "first"
    }
  ],
  "all_reduces": [
    {
      "bytes": 16,
      "elements": 4,
      "type": "f32",
      "op": "sum",
      "algorithm": "ring",
      "repetitions": 3,
      "median_seconds": 0.25,
      "bus_bytes_per_second": 64,
      "wrong_elements": 0
    }
  ],
  "pipeline": {
    "micro_batches": 0,
    "tokens": 0,
    "hidden": 0,
    "seconds": 0,
    "wrong_elements": 0,
    "stages": [
      {
        "rank": 1,
        "layers": [
          0,
          3
        ],
        "received_bytes": 0,
        "layers_applied": 12,
        "sent_bytes": 64
      }
    ]
  },
  "products": [
    {
      "cut": "column",
      "rows": 2,
      "inner": 3,
      "columns": 5,
      "shards": [
        {
          "range": [
            0,
            2
          ]
        },
        {
          "range": [
            2,
            5
          ]
        }
      ],
      "seconds": 0.5,
      "wrong_elements": 0
    },
    {
      "cut": "row",
      "rows": 2,
      "inner": 3,
      "columns": 5,
      "shards": [
        {
          "range": [
            0,
            1
          ]
        },
        {
          "range": [
            1,
            3
          ]
        }
      ],
      "seconds": 1,
      "wrong_elements": 0
    }
  ]
}
)");
}

TEST(ReportJsonTest, HoldsTheError) {
  EXPECT_THAT(ReportJson(Report(), absl::UnavailableError("rank 1 died")),
              AllOf(HasSubstr("\"ok\": false"),
                    HasSubstr("\"error\": \"UNAVAILABLE: rank 1 died\"")));
}

}  // namespace
}  // namespace shoal::ring_demo
