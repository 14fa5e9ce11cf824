// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/results.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::comm_bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two series of a world of four, the second with one half.
Results Sample() {
  Results results;
  results.world_size = 4;
  Series reduce{"all_reduce", "f32", "sum", -1, "auto", "q8_0", {}};
  reduce.rows.push_back({1048576, 262144, Timing{20, 250e-6, 4.2e9, 6.3e9, 0},
                         Timing{20, 12345e-6, 84.9e6, 127e6, 0}});
  results.series.push_back(reduce);
  Series send{"sendrecv", "u8", "none", -1, "auto", "data", {}};
  send.rows.push_back(
      {64, 64, Timing{1000, 9.876e-6, 6.48e6, 6.48e6, {}}, std::nullopt});
  results.series.push_back(send);
  return results;
}

TEST(TableTest, IsThatOfNcclTests) {
  EXPECT_EQ(
      HeaderText(),
      "#                                                              "
      "out-of-place                       in-place\n"
      "#       size         count      type   redop    root     time   algbw   "
      "busbw  #wrong     time   algbw   busbw  #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  "
      "(GB/s)             (us)  (GB/s)  (GB/s)        \n");
  const Results results = Sample();
  EXPECT_EQ(RowText(results.series[0], results.series[0].rows[0]),
            "     1048576        262144       f32     sum      -1    250.0    "
            "4.20    "
            "6.30       0    12345    0.08    0.13       0\n");
  EXPECT_EQ(RowText(results.series[1], results.series[1].rows[0]),
            "          64            64        u8    none      -1     9.88    "
            "0.01    "
            "0.01     N/A      N/A     N/A     N/A     N/A\n");
}

TEST(FooterTest, SumsUp) {
  Results results = Sample();
  EXPECT_THAT(FooterText(results),
              AllOf(HasSubstr("# Out of bounds values : 0 OK\n"),
                    HasSubstr("# Avg bus bandwidth    : 2.14")));
  SHOAL_EXPECT_OK(CheckResults(results));
  results.series[0].rows[0].in_place->wrong_elements = 3;
  EXPECT_THAT(FooterText(results), HasSubstr("values : 3 FAILED\n"));
  EXPECT_THAT(
      CheckResults(results),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr("3 wrong elements"),
                     HasSubstr("all_reduce(f32 x 262144, sum, auto, wire "
                               "q8_0)"))));
  EXPECT_EQ(AverageBusBandwidth({}), 0);
}

TEST(ResultsJsonTest, IsReadAsItWasWritten) {
  const Results results = Sample();
  const std::string json = ResultsJson(results, absl::OkStatus());
  EXPECT_THAT(json, HasSubstr("\"ok\": true"));
  SHOAL_ASSERT_OK_AND_ASSIGN(const Results read, ParseResults(json));
  EXPECT_EQ(ResultsJson(read, absl::OkStatus()), json);
  EXPECT_EQ(read.world_size, 4);
  EXPECT_EQ(read.series[0].wire, "q8_0");
  ASSERT_EQ(read.series.size(), 2);
  EXPECT_FALSE(read.series[1].rows[0].in_place.has_value());
  EXPECT_FALSE(read.series[1].rows[0].out_of_place->wrong_elements.has_value());
  EXPECT_THAT(ResultsJson({}, absl::UnavailableError("rank 1 died")),
              HasSubstr("\"error\": \"UNAVAILABLE: rank 1 died\""));
}

TEST(ParseResultsTest, SaysWhatIsWrong) {
  for (const char* text : {"", "{", "[1]", "nothing", "{}"}) {
    EXPECT_THAT(ParseResults(text),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  // Another program's figures are no mistake for these.
  const std::string json = ResultsJson(Sample(), absl::OkStatus());
  for (const char* name : {"world_size", "series", "collective", "rows",
                           "bytes", "bus_bytes_per_second"}) {
    const std::string key = absl::StrCat("\"", name, "\"");
    EXPECT_THAT(ParseResults(absl::StrReplaceAll(json, {{key, "\"x\""}})),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
}

}  // namespace
}  // namespace shoal::comm_bench
