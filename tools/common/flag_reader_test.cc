// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/flag_reader.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr FlagName kNames[] = {
    {"--size", "-s"}, {"--file"}, {"--help", "-h", false}};

std::string ErrorOf(const std::vector<std::string>& arguments) {
  return std::string(ReadCommandLine(arguments, kNames).status().message());
}

TEST(ReadCommandLineTest, AllFormsAreTheSame) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--size", "4", "a", "-h"},
        std::vector<std::string>{"--size=4", "a", "--help"},
        std::vector<std::string>{"-s", "4", "-h", "a"},
        std::vector<std::string>{"-s4", "-h", "--", "a"}}) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const CommandLine line,
                               ReadCommandLine(arguments, kNames));
    ASSERT_EQ(line.flags.size(), 2);
    EXPECT_EQ(line.flags[0].name, "--size");
    EXPECT_EQ(line.flags[0].value, "4");
    EXPECT_EQ(line.flags[1].name, "--help");
    EXPECT_THAT(line.operands, ElementsAre("a"));
  }
}

TEST(ReadCommandLineTest, WhatFollowsTwoDashesIsAnOperand) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const CommandLine line,
                             ReadCommandLine({"--", "--size", "-"}, kNames));
  EXPECT_THAT(line.flags, IsEmpty());
  EXPECT_THAT(line.operands, ElementsAre("--size", "-"));
  EXPECT_THAT(RefuseOperands(line),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"--size\" is not a flag")));
  SHOAL_EXPECT_OK(RefuseOperands({}));
}

TEST(ReadCommandLineTest, AValueMayLookLikeAFlag) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const CommandLine line,
                             ReadCommandLine({"--size", "-1"}, kNames));
  EXPECT_EQ(line.flags[0].value, "-1");
}

TEST(ReadCommandLineTest, ErrorsNameTheFlag) {
  EXPECT_THAT(ErrorOf({"--sized=4"}), HasSubstr("there is no flag --sized;"));
  EXPECT_THAT(ErrorOf({"-x4"}), HasSubstr("there is no flag -x4;"));
  EXPECT_EQ(ErrorOf({"--size"}), "--size needs a value");
  EXPECT_EQ(ErrorOf({"-s4", "--size=4"}), "--size is given twice");
  EXPECT_EQ(ErrorOf({"--help=now"}), "--help takes no value");
}

TEST(ParseIntegerTest, KeepsToItsLimits) {
  EXPECT_THAT(ParseInteger("--n", "1", 1, 8), IsOkAndHolds(1));
  EXPECT_THAT(ParseInteger("--n", "8", 1, 8), IsOkAndHolds(8));
  for (const char* value : {"0", "9", "", "x", "4x", "99999999999999999999"}) {
    EXPECT_THAT(ParseInteger("--n", value, 1, 8),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--n"), HasSubstr("1 to 8"))));
  }
}

TEST(ParseBytesTest, TakesUnits) {
  EXPECT_THAT(ParseBytes("0"), IsOkAndHolds(0));
  EXPECT_THAT(ParseBytes("65536"), IsOkAndHolds(65536));
  EXPECT_THAT(ParseBytes("64K"), IsOkAndHolds(65536));
  EXPECT_THAT(ParseBytes("64k"), IsOkAndHolds(65536));
  EXPECT_THAT(ParseBytes("64KiB"), IsOkAndHolds(65536));
  EXPECT_THAT(ParseBytes("3M"), IsOkAndHolds(3 << 20));
  EXPECT_THAT(ParseBytes("3GiB"), IsOkAndHolds(std::int64_t{3} << 30));
}

TEST(ParseBytesTest, RefusesTheRest) {
  for (const char* text : {"", "K", "iB", "4iB", "4KB", "4 apples", "1.5K",
                           "-4", "9G9", "8589934592G"}) {
    EXPECT_THAT(ParseBytes(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
}

}  // namespace
}  // namespace shoal::tools
