// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/flags.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tools/comm_bench/collectives.h"

namespace shoal::comm_bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Flags Parsed(const std::vector<std::string>& arguments) {
  const auto flags = ParseFlags(arguments);
  EXPECT_THAT(flags, IsOk());
  return flags.ok() ? *flags : Flags();
}

// The error for `arguments`, which has to be of one line.
std::string ErrorOf(const std::vector<std::string>& arguments) {
  const absl::Status status = ParseFlags(arguments).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               Not(HasSubstr("\n"))));
  return std::string(status.message());
}

TEST(ParseFlagsTest, DefaultsAreThoseOfNcclTests) {
  const Flags flags = Parsed({});
  EXPECT_THAT(SweepSizes(flags), ElementsAre(32 << 20));
  EXPECT_EQ(flags.iterations, 20);
  EXPECT_EQ(flags.warmups, 5);
  EXPECT_EQ(flags.checks, 1);
  EXPECT_THAT(flags.dtypes, ElementsAre(DType::kF32));
  EXPECT_THAT(flags.ops, ElementsAre(ReduceOp::kSum));
  EXPECT_EQ(flags.root, 0);
  ASSERT_EQ(flags.collectives.size(), 1);
  EXPECT_EQ(flags.collectives[0]->name, "all_reduce");
}

TEST(ParseFlagsTest, ShortAndLongFormsAreTheSame) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-b", "8", "-e", "1K",   "-f", "2",
                                 "-i", "4", "-n", "7",    "-w", "0",
                                 "-c", "2", "-o", "prod", "-d", "half",
                                 "-r", "1", "-u", "1",    "-J", "f"},
        std::vector<std::string>{"--minbytes=8", "--maxbytes=1KiB",
                                 "--stepfactor=2", "--stepbytes=4", "--iters=7",
                                 "--warmup_iters=0", "--check=2",
                                 "--op=product", "--datatype=f16", "--root=1",
                                 "--unaligned=1", "--output_file=f"}}) {
    const Flags flags = Parsed(arguments);
    EXPECT_EQ(flags.min_bytes, 8);
    EXPECT_EQ(flags.max_bytes, 1024);
    EXPECT_EQ(flags.step_factor, 2);
    EXPECT_EQ(flags.step_bytes, 4);
    EXPECT_EQ(flags.iterations, 7);
    EXPECT_EQ(flags.warmups, 0);
    EXPECT_EQ(flags.checks, 2);
    EXPECT_THAT(flags.ops, ElementsAre(ReduceOp::kProduct));
    EXPECT_THAT(flags.dtypes, ElementsAre(DType::kF16));
    EXPECT_EQ(flags.root, 1);
    EXPECT_TRUE(flags.unaligned);
    EXPECT_EQ(flags.json, "f");
  }
}

TEST(ParseFlagsTest, TheRestIsShoals) {
  const Flags flags =
      Parsed({"--world=8", "--collective=all_gather,barrier", "-n", "auto",
              "--halves=in_place", "--svg=p", "--trace=t", "--explain"});
  EXPECT_EQ(flags.world, 8);
  ASSERT_EQ(flags.collectives.size(), 2);
  EXPECT_EQ(flags.collectives[1]->name, "barrier");
  EXPECT_EQ(flags.iterations, 0);
  EXPECT_EQ(flags.halves, Halves::kInPlace);
  EXPECT_EQ(flags.svg, "p");
  EXPECT_EQ(flags.trace, "t");
  EXPECT_TRUE(flags.explain);
  EXPECT_EQ(Parsed({"--algo", "ring"}).algorithm, Algorithm::kRing);
  EXPECT_EQ(Parsed({"--collective=all"}).collectives.size(),
            AllCollectives().size());
  EXPECT_EQ(Parsed({"-o", "all"}).ops.size(), 9);
  EXPECT_THAT(Parsed({"-o", "user"}).ops, ElementsAre(ReduceOp::kUser));
  EXPECT_EQ(Parsed({"--wire=bf16"}).wire, WireFormat::kBF16);
  EXPECT_EQ(Parsed({"--wire=f32", "-d", "all"}).wire, WireFormat::kF32);
  EXPECT_EQ(Parsed({"--wire=data", "--collective=all"}).wire,
            WireFormat::kAsData);
  EXPECT_EQ(Parsed({"-d", "all"}).dtypes.size(), 8);
  EXPECT_THAT(Parsed({"--plot", "a", "b", "--svg=p"}).operands,
              ElementsAre("a", "b"));
}

TEST(ParseFlagsTest, HelpNamesEveryFlagAndCollective) {
  EXPECT_TRUE(Parsed({"-h"}).help);
  for (const char* flag :
       {"--world",         "--rank",         "--collective",
        "-b,--minbytes",   "-e,--maxbytes",  "-i,--stepbytes",
        "-f,--stepfactor", "-n,--iters",     "-w,--warmup_iters",
        "-c,--check",      "-o,--op",        "-d,--datatype",
        "-r,--root",       "-u,--unaligned", "-J,--output_file",
        "--svg",           "--trace",        "--algo",
        "--halves",        "--wire",         "--explain",
        "--plot",          "--help"}) {
    EXPECT_THAT(HelpText(), HasSubstr(flag));
  }
  EXPECT_THAT(HelpText(), HasSubstr(CollectivesText()));
}

TEST(ParseFlagsTest, ErrorsNameTheFlagTheValueAndTheChoice) {
  EXPECT_THAT(ErrorOf({"--world=0"}), HasSubstr("1 to 64"));
  EXPECT_THAT(ErrorOf({"-b", "x"}),
              AllOf(HasSubstr("--minbytes"), HasSubstr("\"x\"")));
  EXPECT_THAT(ErrorOf({"-e", "2000G"}), HasSubstr("--maxbytes"));
  EXPECT_THAT(ErrorOf({"-f", "0"}), HasSubstr("--stepfactor"));
  EXPECT_THAT(ErrorOf({"-n", "0"}), HasSubstr("--iters"));
  EXPECT_THAT(ErrorOf({"-w", "-1"}), HasSubstr("--warmup_iters"));
  EXPECT_THAT(ErrorOf({"-c", ""}), HasSubstr("--check"));
  EXPECT_THAT(ErrorOf({"-o", "mulsum"}),
              AllOf(HasSubstr("--op"), HasSubstr("average")));
  EXPECT_THAT(ErrorOf({"-d", "f8"}),
              AllOf(HasSubstr("--datatype"), HasSubstr("bf16")));
  EXPECT_THAT(ErrorOf({"-r", "64"}), HasSubstr("--root"));
  EXPECT_THAT(ErrorOf({"-u", "2"}), HasSubstr("--unaligned"));
  EXPECT_THAT(ErrorOf({"-J", ""}), HasSubstr("--output_file"));
  EXPECT_THAT(ErrorOf({"--algo=star"}), HasSubstr("--algo"));
  EXPECT_THAT(ErrorOf({"--halves=none"}), HasSubstr("in_place"));
  EXPECT_THAT(ErrorOf({"--collective=all_reduce,"}), HasSubstr("--collective"));
  EXPECT_THAT(ErrorOf({"-g", "1"}), HasSubstr("no flag -g"));
  EXPECT_THAT(ErrorOf({"all_reduce"}), HasSubstr("is not a flag"));
}

TEST(ParseFlagsTest, WhatMakesNoSenseTogetherIsRefused) {
  EXPECT_THAT(ErrorOf({"-b", "8", "-e", "4"}), HasSubstr("more than"));
  EXPECT_THAT(ErrorOf({"-b", "0", "-e", "4", "-f", "2"}),
              HasSubstr("--minbytes 0"));
  EXPECT_THAT(ErrorOf({"-b", "4", "-e", "8", "-i", "0"}),
              HasSubstr("--stepbytes 0"));
  EXPECT_THAT(ErrorOf({"-b", "0", "-e", "1G", "-i", "1"}),
              HasSubstr("--stepbytes 1"));
  EXPECT_THAT(ErrorOf({"--plot", "--svg=p"}), HasSubstr("-J"));
  EXPECT_THAT(ErrorOf({"--plot", "a"}), HasSubstr("--svg"));
  EXPECT_THAT(ErrorOf({"-o", "xor"}), HasSubstr("--op xor is not one of f32"));
  EXPECT_THAT(ErrorOf({"--algo=dissemination"}),
              HasSubstr("all_reduce has no algorithm dissemination"));
  EXPECT_THAT(ErrorOf({"--algo=ring", "--collective=sendrecv"}),
              HasSubstr("sendrecv has no algorithm ring"));
}

TEST(ParseFlagsTest, WireFormatsGoWithReductionsOfTheirTypes) {
  EXPECT_THAT(ErrorOf({"--wire=q4"}),
              AllOf(HasSubstr("--wire"), HasSubstr("q8_0")));
  EXPECT_THAT(ErrorOf({"--wire=bf16", "--collective=all_reduce,all_gather"}),
              HasSubstr("--wire bf16: all_gather has no choice"));
  EXPECT_THAT(ErrorOf({"--wire=q8_0", "-d", "f16"}),
              HasSubstr("--wire q8_0 is not one of --datatype f16"));
  EXPECT_THAT(ErrorOf({"--wire=f32", "-d", "f16", "-o", "user"}),
              HasSubstr("--op user"));
  EXPECT_THAT(ErrorOf({"--wire=q8_0", "--algo=halving-doubling"}),
              HasSubstr("choose one of auto, ring"));
}

TEST(SweepSizesTest, GrowByAFactorOrByBytes) {
  EXPECT_THAT(SweepSizes(Parsed({"-b", "4", "-e", "64", "-f", "4"})),
              ElementsAre(4, 16, 64));
  EXPECT_THAT(SweepSizes(Parsed({"-b", "4", "-e", "65", "-f", "4"})),
              ElementsAre(4, 16, 64));
  EXPECT_THAT(SweepSizes(Parsed({"-b", "0", "-e", "20", "-i", "8"})),
              ElementsAre(0, 8, 16));
  EXPECT_THAT(SweepSizes(Parsed({"-b", "1G", "-e", "1G", "-i", "0"})),
              ElementsAre(1 << 30));
}

}  // namespace
}  // namespace shoal::comm_bench
