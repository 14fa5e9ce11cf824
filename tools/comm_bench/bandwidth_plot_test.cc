// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/bandwidth_plot.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/tools/comm_bench/results.h"

namespace shoal::comm_bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Timing OfBandwidth(double bus_bandwidth) {
  Timing timing;
  timing.seconds = 1;
  timing.bus_bandwidth = bus_bandwidth;
  return timing;
}

// Bandwidth grows with size, from 1 MB/s to `top`.
Results GrowingRun(const std::string& collective, double top) {
  Results results;
  results.world_size = 2;
  Series series{collective, "f32", "sum", -1, "auto", "data", {}};
  series.rows = {{4, 1, OfBandwidth(1e6), std::nullopt},
                 {65536, 16384, OfBandwidth(1e8), OfBandwidth(2e8)},
                 {1 << 24, 1 << 22, OfBandwidth(top), OfBandwidth(top)}};
  results.series = {series};
  return results;
}

int Count(absl::string_view text, absl::string_view what) {
  return static_cast<int>(
      std::vector<absl::string_view>(absl::StrSplit(text, what)).size() - 1);
}

TEST(BandwidthPlotTest, DrawsEveryHalfOfEveryRun) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const std::string svg,
      BandwidthPlot({{"old & <new>.json", GrowingRun("all_reduce", 1e9)},
                     {"b.json", GrowingRun("all_gather", 2e9)}}));
  EXPECT_EQ(Count(svg, "<polyline"), 4);
  EXPECT_EQ(Count(svg, "stroke-dasharray"), 2 * 2);  // curve and legend
  EXPECT_EQ(Count(svg, "<circle"), 2 * (3 + 2));
  EXPECT_THAT(svg, AllOf(HasSubstr("old &amp; &lt;new&gt;.json: all_reduce"),
                         HasSubstr("b.json: all_gather"), HasSubstr("16 MiB"),
                         HasSubstr("1.00 GB/s")));
}

TEST(BandwidthPlotTest, PointsStandWhereTheirLogarithmsAre) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const std::string svg,
      BandwidthPlot({{"", GrowingRun("all_reduce", 1e9)}}));
  // 4 B and 1 MB/s at the lower left end of the axes, 16 MiB at the right one,
  // and 64 KiB, 2^16, 14 of 22 doublings between them.
  EXPECT_THAT(svg, AllOf(HasSubstr("cx=\"80.0\" cy=\"440.0\""),
                         HasSubstr("cx=\"930.0\""), HasSubstr("cx=\"620.9\"")));
}

TEST(BandwidthPlotTest, OnePointIsEnough) {
  Results results = GrowingRun("all_reduce", 1e9);
  results.series[0].rows.resize(1);
  SHOAL_ASSERT_OK_AND_ASSIGN(const std::string svg,
                             BandwidthPlot({{"", results}}));
  EXPECT_THAT(svg, AllOf(HasSubstr("<circle"), Not(HasSubstr("nan")),
                         Not(HasSubstr("inf"))));
}

TEST(BandwidthPlotTest, NothingToDrawIsAnError) {
  Results results = GrowingRun("all_reduce", 1e9);
  for (Row& row : results.series[0].rows) {
    row.out_of_place->bus_bandwidth = 0;
    row.in_place.reset();
  }
  EXPECT_THAT(BandwidthPlot({{"", results}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(BandwidthPlot({}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace shoal::comm_bench
