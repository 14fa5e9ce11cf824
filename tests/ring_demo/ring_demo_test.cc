// SPDX-License-Identifier: Apache-2.0
//
// The program ring_demo, from outside: what it prints, how it exits, and that
// it leaves nothing behind. Its path is the first argument.

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/tcp_listener.h"
#include "shoal/tests/harness/program_run.h"
#include "shoal/tests/ring_demo/figures.pb.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

// Of a run that would still go on for a long time after its first all-reduces.
constexpr char kLongRun[] = "--max_bytes=256MiB";

const char* program_path = nullptr;

// One run of ring_demo, or a few ranks of it.
class Demo : public tests::ProgramRun {
 public:
  explicit Demo(const std::vector<std::vector<std::string>>& arguments,
                int descriptor_of_first = -1)
      : ProgramRun(program_path, arguments, descriptor_of_first) {}

  // The pid that the table of ranks shows.
  pid_t PidOfRank(int rank) {
    const std::vector<std::string> lines = absl::StrSplit(output(), '\n');
    for (const std::string& line : lines) {
      const std::vector<std::string> cells =
          absl::StrSplit(line, ' ', absl::SkipEmpty());
      pid_t pid;
      if (cells.size() >= 5 && cells[0] == absl::StrCat(rank) &&
          absl::SimpleAtoi(cells[2], &pid)) {
        return pid;
      }
    }
    ADD_FAILURE() << "no rank " << rank << " in " << output();
    return 0;
  }
};

// The document, by another's parser.
ring_demo_test::Figures ParseFigures(const std::string& text) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  ring_demo_test::Figures figures;
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(text, &figures, options).ok())
      << text;
  return figures;
}

class RingDemoTest : public ::testing::TestWithParam<int> {};

TEST_P(RingDemoTest, ShowsAWorldThatIsRight) {
  const int world = GetParam();
  const std::string json =
      absl::StrCat(testing::TempDir(), "/figures-", world, ".json");
  Demo run({{"--world", absl::StrCat(world), "--max_bytes=64KiB", "--layers=10",
             absl::StrCat("--json=", json)}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok()) << run.exit().ToString() << run.output();
  EXPECT_EQ(run.LastLine(), "ring_demo: OK");
  EXPECT_THAT(run.errors(), IsEmpty());
  EXPECT_TRUE(run.AllGone());
  EXPECT_THAT(run.output(),
              AllOf(HasSubstr("Who owns what: 10 layers"),
                    HasSubstr("64 KiB      16384"), HasSubstr("all-gather")));
  // Each line of the sweep ends in the number of wrong elements.
  EXPECT_THAT(run.output(), ContainsRegex("64 KiB +16384 .* 0\n"));
  for (int rank = 0; rank < world; ++rank) run.PidOfRank(rank);

  const ring_demo_test::Figures figures = ParseFigures(tests::FileText(json));
  EXPECT_TRUE(figures.ok());
  EXPECT_EQ(figures.world_size(), world);
  ASSERT_EQ(figures.ranks_size(), world);
  for (int rank = 0; rank < world; ++rank) {
    EXPECT_EQ(figures.ranks(rank).rank(), rank);
    EXPECT_EQ(figures.ranks(rank).layers_size(), 2);
  }
  // Rank 0 has the last block.
  EXPECT_EQ(figures.ranks(0).layers(1), 10);
  EXPECT_EQ(figures.all_reduces_size(), 8);
  for (const ring_demo_test::AllReduce& figure : figures.all_reduces()) {
    ASSERT_TRUE(figure.has_wrong_elements());
    EXPECT_EQ(figure.wrong_elements(), 0);
    EXPECT_GT(figure.median_seconds(), 0);
    EXPECT_GE(figure.repetitions(), 1);
  }
  EXPECT_EQ(figures.pipeline().stages_size(), world);
}

INSTANTIATE_TEST_SUITE_P(Worlds, RingDemoTest, ::testing::Range(1, 9));

TEST(RingDemoFlagsTest, HelpIsNoError) {
  Demo run({{"--help"}});
  ASSERT_TRUE(run.ToTheEnd());
  EXPECT_TRUE(run.exit().ok());
  EXPECT_THAT(run.output(), HasSubstr("--max_bytes"));
  EXPECT_THAT(run.errors(), IsEmpty());
}

TEST(RingDemoFlagsTest, BadOnesGetOneLine) {
  const std::vector<std::vector<std::string>> cases = {
      {"--world=0"},
      {"--world", "65"},
      {"--world"},
      {"--world=2", "--world=3"},
      {"--layers=10001"},
      {"--layers=none"},
      {"--max_bytes=1T"},
      {"--colour"},
      {"4"},
      {"--rank=0"},
      {"--rank=2", "--world_size=2", "--address=127.0.0.1:1"},
      {"--rank=x"},
      {"--world=2", "--rank=0", "--world_size=2", "--address=127.0.0.1:1"},
      {"--json=/nowhere/figures.json"}};
  for (const std::vector<std::string>& arguments : cases) {
    Demo run({arguments});
    ASSERT_TRUE(run.ToTheEnd());
    const std::string flag = arguments[0];
    EXPECT_EQ(run.exit().ToString(), "exited with code 2") << flag;
    EXPECT_THAT(run.output(), IsEmpty()) << flag;
    EXPECT_THAT(run.errors(), MatchesRegex("ring_demo: [^\n]+\n")) << flag;
  }
}

TEST(RingDemoFlagsTest, TheLauncherChecksTheTimeouts) {
  for (const char* variable : {"SHOAL_TIMEOUT", "SHOAL_JOIN_TIMEOUT"}) {
    ASSERT_EQ(setenv(variable, "soon", 1), 0);
    Demo run({{"--world=2"}});
    unsetenv(variable);
    ASSERT_TRUE(run.ToTheEnd());
    EXPECT_EQ(run.exit().ToString(), "exited with code 2");
    EXPECT_THAT(run.output(), IsEmpty());
    EXPECT_THAT(run.errors(),
                MatchesRegex(absl::StrCat("ring_demo: ", variable,
                                          " is \"soon\"[^\n]+\n")));
  }
}

TEST(RingDemoStreamsTest, NeedsNoStandardInput) {
  const auto run = tests::RunInShell(
      program_path, "exec \"$0\" --world 2 --max_bytes 1K <&-");
  EXPECT_EQ(run->exit(0).ToString(), "exited with code 0");
  EXPECT_THAT(run->output(0), HasSubstr("ring_demo: OK\n"));
}

TEST(RingDemoStreamsTest, OutputThatIsLostIsAFailure) {
  for (const char* flags : {"--help", "--world 2 --max_bytes 1K"}) {
    for (const char* output : {">/dev/full", ">&-"}) {
      const auto run = tests::RunInShell(
          program_path, absl::StrCat("exec \"$0\" ", flags, " ", output));
      EXPECT_EQ(run->exit(0).ToString(), "exited with code 1")
          << flags << output;
      EXPECT_EQ(run->error_output(0),
                "ring_demo: cannot write to standard output\n")
          << flags << output;
    }
  }
}

TEST(RingDemoJoinTest, RanksMayBeStartedByHand) {
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  const std::string address = absl::StrCat("--address=", listener.address());
  const int descriptor = std::move(listener).ReleaseDescriptor();
  std::vector<std::vector<std::string>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back({absl::StrCat("--rank=", rank), "--world_size=3", address,
                     "--max_bytes=1K"});
  }
  Demo run(ranks, descriptor);
  close(descriptor);
  ASSERT_TRUE(run.ToTheEnd());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(run.exit(rank).ok()) << run.exit(rank).ToString();
    EXPECT_EQ(run.LastLine(rank), "ring_demo: OK");
  }
  EXPECT_THAT(run.output(), HasSubstr("on 3 ranks"));
}

class RingDemoDeathTest : public ::testing::Test {
 protected:
  // A run in the middle of its work.
  RingDemoDeathTest() : run_({{"--world=4", "--layers=8", kLongRun}}) {
    EXPECT_TRUE(run_.UntilPrinted(" 1 KiB "));
    EXPECT_EQ(run_.Alive().size(), 5);  // with the launcher
  }

  Demo run_;
};

TEST_F(RingDemoDeathTest, AKilledRankIsNamed) {
  const pid_t pid = run_.PidOfRank(2);
  kill(pid, SIGKILL);
  ASSERT_TRUE(run_.ToTheEnd());
  EXPECT_EQ(run_.exit().ToString(), "exited with code 1");
  EXPECT_EQ(run_.LastLine(),
            absl::StrCat("ring_demo: FAILED: rank 2 (pid ", pid,
                         ") was killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(run_.errors(), HasSubstr("UNAVAILABLE"));
  EXPECT_TRUE(run_.AllGone());
}

TEST_F(RingDemoDeathTest, NothingOutlivesTheLauncher) {
  run_.Signal(SIGKILL);
  ASSERT_TRUE(run_.ToTheEnd());
  EXPECT_EQ(run_.exit().signal, SIGKILL);
  EXPECT_TRUE(run_.AllGone());
}

TEST_F(RingDemoDeathTest, AnInterruptEndsEverything) {
  run_.Signal(SIGINT);
  ASSERT_TRUE(run_.ToTheEnd());
  EXPECT_EQ(run_.exit().ToString(), "exited with code 130");
  EXPECT_EQ(run_.LastLine(),
            "ring_demo: FAILED: interrupted by signal 2 (SIGINT)");
  EXPECT_THAT(run_.errors(), IsEmpty());
  EXPECT_TRUE(run_.AllGone());
}

TEST_F(RingDemoDeathTest, SoDoesARequestToTerminate) {
  run_.Signal(SIGTERM);
  ASSERT_TRUE(run_.ToTheEnd());
  EXPECT_EQ(run_.exit().ToString(), "exited with code 143");
  EXPECT_THAT(run_.LastLine(), HasSubstr("SIGTERM"));
  EXPECT_TRUE(run_.AllGone());
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " PATH_OF_RING_DEMO" << std::endl;
    return 2;
  }
  shoal::program_path = argv[1];
  return RUN_ALL_TESTS();
}
