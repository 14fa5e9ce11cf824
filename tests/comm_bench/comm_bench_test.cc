// SPDX-License-Identifier: Apache-2.0
//
// The program comm_bench, from outside. Its path is the first argument.

#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/tcp_listener.h"
#include "shoal/tests/harness/program_run.h"
#include "shoal/tools/comm_bench/results.pb.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

const char* program_path = nullptr;

class Bench : public tests::ProgramRun {
 public:
  explicit Bench(const std::vector<std::vector<std::string>>& arguments,
                 int descriptor_of_first = -1)
      : ProgramRun(program_path, arguments, descriptor_of_first) {}
};

std::string TempFile(const std::string& name) {
  return absl::StrCat(testing::TempDir(), "/", name);
}

class CommBenchTest : public ::testing::TestWithParam<int> {};

TEST_P(CommBenchTest, MeasuresEveryCollective) {
  const int world = GetParam();
  const std::string json = TempFile(absl::StrCat("all-", world, ".json"));
  Bench run({{"--world", absl::StrCat(world), "--collective=all", "-b", "8",
              "-e", "32K", "-f", "64", "-n", "2", "-w", "1", "-J", json}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok()) << run.exit().ToString() << run.output();
  EXPECT_THAT(run.errors(), IsEmpty());
  EXPECT_EQ(run.LastLine(), "comm_bench: OK");
  EXPECT_THAT(run.output(), AllOf(HasSubstr("# Out of bounds values : 0 OK\n"),
                                  HasSubstr("# Avg bus bandwidth    : ")));
  EXPECT_TRUE(run.AllGone());

  comm_bench::ResultsMessage results;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(tests::FileText(json),
                                                          &results)
                  .ok());
  EXPECT_TRUE(results.ok());
  EXPECT_EQ(results.world_size(), world);
  int measured = 0;
  for (const comm_bench::SeriesMessage& series : results.series()) {
    EXPECT_EQ(series.rows_size(), series.collective() == "barrier" ? 1 : 3);
    for (const comm_bench::RowMessage& row : series.rows()) {
      EXPECT_TRUE(row.has_in_place() || row.has_out_of_place());
      for (const comm_bench::TimingMessage& timing :
           {row.in_place(), row.out_of_place()}) {
        if (timing.iterations() == 0) continue;
        ASSERT_TRUE(timing.has_wrong_elements()) << series.collective();
        EXPECT_EQ(timing.wrong_elements(), 0) << series.collective();
        EXPECT_EQ(timing.iterations(), 2) << series.collective();
        EXPECT_GT(timing.median_seconds(), 0) << series.collective();
        ++measured;
      }
    }
  }
  EXPECT_GE(measured, 20);
}

INSTANTIATE_TEST_SUITE_P(Worlds, CommBenchTest,
                         ::testing::Values(1, 2, 3, 4, 8));

TEST(CommBenchTableTest, RowsHaveTheColumnsOfNcclTests) {
  Bench run({{"--world=2", "-b", "16", "-e", "64", "-f", "4", "-n", "1", "-d",
              "all", "-o", "all", "-u", "1"}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok()) << run.output();
  int rows = 0;
  for (absl::string_view line : absl::StrSplit(run.output(), '\n')) {
    const std::vector<std::string> cells =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (cells.empty() || (cells[0] != "16" && cells[0] != "64")) continue;
    ++rows;
    ASSERT_EQ(cells.size(), 13) << line;
    EXPECT_EQ(cells[8], "0") << line;
    EXPECT_EQ(cells[12], "0") << line;
  }
  // The user's is one of all types; four integer types take three more.
  EXPECT_EQ(rows, 2 * (8 * 6 + 4 * 3));
}

TEST(CommBenchWireTest, IsInTheHeaderAndTheJson) {
  const std::string json = TempFile("wire.json");
  Bench run({{"--world=3", "--collective",
              "all_reduce,reduce_scatter,reduce,all_reduce_coalesced",
              "--wire=q8_0", "-b", "4K", "-e", "4K", "-n", "1", "-J", json}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok()) << run.output() << run.errors();
  EXPECT_THAT(run.output(), HasSubstr(" wire: q8_0\n"));
  const std::string text = tests::FileText(json);
  EXPECT_THAT(text, HasSubstr("\"wire\": \"q8_0\""));
  EXPECT_THAT(text, Not(HasSubstr("\"wire\": \"data\"")));
}

TEST(CommBenchPlotTest, DrawsOneRunOrSeveral) {
  const std::string json = TempFile("plot.json");
  const std::string svg = TempFile("plot.svg");
  Bench run({{"--world=2", "-b", "1K", "-e", "4K", "-f", "4", "-n", "1", "-J",
              json, "--svg", svg}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok()) << run.output();
  EXPECT_THAT(tests::FileText(svg),
              AllOf(StartsWith("<?xml"), HasSubstr("<polyline"),
                    Not(HasSubstr("plot.json"))));

  Bench plot({{"--plot", json, json, "--svg", svg}});
  ASSERT_TRUE(plot.ToTheEnd());
  EXPECT_TRUE(plot.exit().ok()) << plot.errors();
  EXPECT_THAT(tests::FileText(svg),
              AllOf(HasSubstr("plot.json: all_reduce"), HasSubstr("</svg>")));
}

TEST(CommBenchTraceTest, HasTheCallsOfAllRanks) {
  const std::string trace = TempFile("trace.json");
  Bench run(
      {{"--world=3", "-b", "1K", "-e", "1K", "-n", "1", "--trace", trace}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok()) << run.output();
  EXPECT_THAT(tests::FileText(trace),
              AllOf(HasSubstr("\"traceEvents\""), HasSubstr("\"rank 0\""),
                    HasSubstr("\"rank 2\""), Not(HasSubstr("\"rank 3\"")),
                    HasSubstr("AllReduce(f32 x 256, sum, ")));
}

TEST(CommBenchExplainTest, NeedsNoRanks) {
  Bench run({{"--world=4", "--explain", "-b", "4", "-e", "4M", "-f", "4"}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok()) << run.errors();
  EXPECT_THAT(run.output(), ContainsRegex(" 4 MiB +1048576 +[a-z]"));
}

TEST(CommBenchExplainTest, FollowsRank0sEnvironment) {
  const auto run = tests::RunInShell(
      program_path,
      "SHOAL_ALGO=halving-doubling exec \"$0\" --explain -b 64 -e 64");
  EXPECT_TRUE(run->exit(0).ok()) << run->error_output(0);
  EXPECT_THAT(run->output(0), ContainsRegex(" 64 B +16 +halving-doubling\n"));
}

TEST(CommBenchFlagsTest, HelpIsNoError) {
  Bench run({{"--help"}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok());
  EXPECT_THAT(run.output(), HasSubstr("--minbytes"));
}

TEST(CommBenchFlagsTest, BadOnesGetOneLine) {
  const std::string no_json = TempFile("no.json");
  const std::vector<std::vector<std::string>> cases = {
      {"--world=0"},
      {"-g", "1"},
      {"-b"},
      {"-b", "8", "-e", "4"},
      {"--world=2", "-r", "2"},
      {"--algo=star"},
      {"--wire=q8_0", "-d", "f16"},
      {"--wire=bf16", "--collective=broadcast"},
      {"--rank=0"},
      {"--world=2", "--rank=0", "--world_size=2", "--address=127.0.0.1:1"},
      {"--rank=0", "--world_size=1", "--explain"},
      {"--plot", no_json, "--svg", TempFile("no.svg")},
      {"--plot", program_path, "--svg", TempFile("no.svg")},
      {"-J", "/nowhere/run.json"},
      {"--svg", "/nowhere/run.svg"},
      {"--trace", "/nowhere/trace.json"}};
  for (const std::vector<std::string>& arguments : cases) {
    Bench run({arguments});
    ASSERT_TRUE(run.ToTheEnd());
    const std::string flag = arguments[0];
    EXPECT_EQ(run.exit().ToString(), "exited with code 2") << flag;
    EXPECT_THAT(run.output(), IsEmpty()) << flag;
    EXPECT_THAT(run.errors(), MatchesRegex("comm_bench: [^\n]+\n")) << flag;
  }
}

TEST(CommBenchFlagsTest, OutputThatIsLostIsAFailure) {
  const auto run = tests::RunInShell(
      program_path, "exec \"$0\" --world 2 -b 8 -e 8 -n 1 >/dev/full");
  EXPECT_EQ(run->exit(0).ToString(), "exited with code 1");
  EXPECT_EQ(run->error_output(0),
            "comm_bench: cannot write to standard output\n");
}

TEST(CommBenchJoinTest, RanksMayBeStartedByHand) {
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  const std::string address = absl::StrCat("--address=", listener.address());
  const int descriptor = std::move(listener).ReleaseDescriptor();
  std::vector<std::vector<std::string>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back({absl::StrCat("--rank=", rank), "--world_size=3", address,
                     "-b", "64", "-e", "64", "-n", "1"});
  }
  Bench run(ranks, descriptor);
  close(descriptor);
  ASSERT_TRUE(run.ToTheEnd());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(run.exit(rank).ok()) << run.exit(rank).ToString();
    EXPECT_EQ(run.LastLine(rank), "comm_bench: OK");
  }
  EXPECT_THAT(run.output(), HasSubstr("# ranks 3 "));
}

TEST(CommBenchDeathTest, AnInterruptEndsEverything) {
  Bench run({{"--world=4", "-b", "64M", "-e", "64M", "-n", "100000"}});
  EXPECT_TRUE(run.UntilPrinted("busbw"));
  run.Signal(SIGINT);
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_EQ(run.exit().ToString(), "exited with code 130");
  EXPECT_EQ(run.LastLine(),
            "comm_bench: FAILED: interrupted by signal 2 (SIGINT)");
  EXPECT_TRUE(run.AllGone());
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (argc != 2) {
    std::cerr << "usage: comm_bench_test PROGRAM" << std::endl;
    return 2;
  }
  shoal::program_path = argv[1];
  return RUN_ALL_TESTS();
}
