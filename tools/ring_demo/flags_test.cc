// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/flags.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::ring_demo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ParseFlagsTest, NothingGivenIsTheDefault) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const Flags flags, ParseFlags({}));
  EXPECT_EQ(flags.world, 0);
  EXPECT_EQ(flags.layers, 32);
  EXPECT_EQ(flags.max_bytes, 16 << 20);
  EXPECT_EQ(flags.json, "");
  EXPECT_FALSE(flags.help);
}

TEST(ParseFlagsTest, BothFormsAreTheSame) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--world", "64", "--layers", "7",
                                 "--max_bytes", "1K", "--json", "a b"},
        std::vector<std::string>{"--world=64", "--layers=7", "--max_bytes=1K",
                                 "--json=a b"}}) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const Flags flags, ParseFlags(arguments));
    EXPECT_EQ(flags.world, 64);
    EXPECT_EQ(flags.layers, 7);
    EXPECT_EQ(flags.max_bytes, 1024);
    EXPECT_EQ(flags.json, "a b");
  }
}

TEST(ParseFlagsTest, HelpIsHelp) {
  for (const char* help : {"--help", "-h"}) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const Flags flags, ParseFlags({help}));
    EXPECT_TRUE(flags.help);
  }
  for (const char* flag : {"--world", "--rank", "--world_size", "--address",
                           "--layers", "--max_bytes", "--json", "--help"}) {
    EXPECT_THAT(HelpText(), HasSubstr(flag));
  }
}

// The error for `arguments`, which has to be of one line.
std::string ErrorOf(const std::vector<std::string>& arguments) {
  const absl::Status status = ParseFlags(arguments).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               Not(HasSubstr("\n"))));
  return std::string(status.message());
}

TEST(ParseFlagsTest, ErrorsNameTheFlagTheValueAndTheChoice) {
  for (const char* value :
       {"0", "65", "-1", "four", "", "4x", "99999999999999999999"}) {
    EXPECT_THAT(ErrorOf({"--world", value}),
                AllOf(HasSubstr("--world"), HasSubstr("1 to 64"),
                      HasSubstr(absl::StrCat("\"", value, "\""))));
  }
  for (const char* value : {"0", "10001"}) {
    EXPECT_THAT(ErrorOf({"--layers", value}),
                AllOf(HasSubstr("--layers"), HasSubstr("1 to 10000")));
  }
  EXPECT_THAT(ErrorOf({"--max_bytes=3"}),
              AllOf(HasSubstr("--max_bytes"), HasSubstr("\"3\"")));
  EXPECT_THAT(ErrorOf({"--max_bytes=2GiB"}), HasSubstr("1GiB"));
  EXPECT_THAT(ErrorOf({"--json="}), HasSubstr("--json"));
  EXPECT_THAT(ErrorOf({"--wrold=4"}), HasSubstr("--wrold"));
  EXPECT_THAT(ErrorOf({"--wrold"}), HasSubstr("no flag --wrold"));
  EXPECT_THAT(ErrorOf({"4"}), HasSubstr("\"4\" is not a flag"));
  EXPECT_THAT(ErrorOf({"-world=4"}), HasSubstr("no flag -world=4"));
  EXPECT_THAT(ErrorOf({""}), HasSubstr("is not a flag"));
}

TEST(ParseFlagsTest, EachFlagIsGivenOnceWithAValue) {
  for (const std::string flag :
       {"--world", "--layers", "--max_bytes", "--json"}) {
    EXPECT_EQ(ErrorOf({"-h", flag}), flag + " needs a value");
    EXPECT_EQ(ErrorOf({flag, "8", flag, "8"}), flag + " is given twice");
    EXPECT_EQ(ErrorOf({flag, "8", flag + "=9"}), flag + " is given twice");
    EXPECT_EQ(ErrorOf({flag + "=8", flag}), flag + " is given twice");
  }
}

TEST(ParseFlagsTest, TheLargestSizeIsAWholeNumberOfFloats) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const Flags flags, ParseFlags({"--max_bytes=11"}));
  EXPECT_EQ(flags.max_bytes, 8);
}

TEST(RankArgumentsTest, AreReadAsTheSameFlags) {
  Flags flags;
  flags.world = 3;
  flags.layers = 5;
  flags.max_bytes = 4096;
  EXPECT_THAT(RankArguments(flags),
              ElementsAre("--layers=5", "--max_bytes=4096"));
  flags.json = "file name";
  SHOAL_ASSERT_OK_AND_ASSIGN(const Flags read,
                             ParseFlags(RankArguments(flags)));
  EXPECT_EQ(read.world, 0);
  EXPECT_EQ(read.layers, 5);
  EXPECT_EQ(read.max_bytes, 4096);
  EXPECT_EQ(read.json, "file name");
}

}  // namespace
}  // namespace shoal::ring_demo
