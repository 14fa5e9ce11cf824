// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/environment.h"

#include <fcntl.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/tcp_communicator.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

EnvironmentOptions Environment(std::map<std::string, std::string> variables) {
  EnvironmentOptions options;
  options.lookup = [variables = std::move(variables)](
                       absl::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  return options;
}

TEST(EnvironmentTest, ReadsAllVariables) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const TcpOptions options,
      TcpOptionsFromEnvironment(Environment({{"SHOAL_RANK", "2"},
                                             {"SHOAL_WORLD_SIZE", "4"},
                                             {"SHOAL_ADDRESS", "node0:29500"},
                                             {"SHOAL_JOB_ID", "j17"},
                                             {"SHOAL_JOIN_TIMEOUT", "2m"},
                                             {"SHOAL_TIMEOUT", "1.5"}})));
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.world_size, 4);
  EXPECT_EQ(options.address, "node0:29500");
  EXPECT_EQ(options.job_id, "j17");
  EXPECT_EQ(options.timeouts.join, absl::Minutes(2));
  EXPECT_EQ(options.timeouts.operation, absl::Milliseconds(1500));
  EXPECT_FALSE(options.listener.has_value());
}

TEST(EnvironmentTest, TheAlgorithmsOfRankZeroCount) {
  for (const char* rank : {"0", "1"}) {
    SHOAL_ASSERT_OK_AND_ASSIGN(
        const TcpOptions options,
        TcpOptionsFromEnvironment(Environment({{"SHOAL_RANK", rank},
                                               {"SHOAL_WORLD_SIZE", "4"},
                                               {"SHOAL_ADDRESS", "a:1"},
                                               {"SHOAL_ALGO", "tree"}})));
    EXPECT_EQ(options.algorithm_policy == AlgorithmPolicy(),
              std::string(rank) != "0");
  }
}

TEST(EnvironmentTest, FlagsWinOverVariablesAndDefaultsStay) {
  EnvironmentOptions environment = Environment({{"SHOAL_RANK", "2"},
                                                {"SHOAL_WORLD_SIZE", "4"},
                                                {"SHOAL_ADDRESS", "a:1"},
                                                {"SHOAL_JOB_ID", ""}});
  environment.world.rank = 3;
  environment.world.world_size = 8;
  environment.world.address = "b:2";
  environment.defaults.job_id = "default";
  environment.defaults.timeouts.operation = absl::Seconds(7);
  SHOAL_ASSERT_OK_AND_ASSIGN(const TcpOptions options,
                             TcpOptionsFromEnvironment(std::move(environment)));
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.world_size, 8);
  EXPECT_EQ(options.address, "b:2");
  EXPECT_EQ(options.job_id, "default");
  EXPECT_EQ(options.timeouts.operation, absl::Seconds(7));
}

TEST(EnvironmentTest, OneLineNamesEverythingThatIsMissing) {
  EXPECT_THAT(
      TcpOptionsFromEnvironment(Environment({{"SHOAL_RANK", ""}})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("SHOAL_RANK"), HasSubstr("SHOAL_WORLD_SIZE"),
                     HasSubstr("SHOAL_ADDRESS"), HasSubstr("are not set"),
                     Not(HasSubstr("\n")))));
  EXPECT_THAT(TcpOptionsFromEnvironment(Environment(
                  {{"SHOAL_RANK", "0"}, {"SHOAL_WORLD_SIZE", "2"}})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("SHOAL_ADDRESS (--address) is not set"),
                             Not(HasSubstr("SHOAL_RANK")))));
}

TEST(EnvironmentTest, ValuesThatMakeNoSenseAreNamed) {
  const struct {
    const char* name;
    const char* value;
    const char* wanted;
  } kCases[] = {{"SHOAL_RANK", "x", "a number"},
                {"SHOAL_RANK", "-1", "a number"},
                {"SHOAL_RANK", "4", "less than the world size, 4"},
                {"SHOAL_WORLD_SIZE", "0", "1 or more"},
                {"SHOAL_WORLD_SIZE", "4 ranks", "a number"},
                {"SHOAL_JOIN_TIMEOUT", "soon", "a time such as"},
                {"SHOAL_TIMEOUT", "0", "more than 0"},
                {"SHOAL_TIMEOUT", "-3s", "more than 0"},
                {"SHOAL_TIMEOUT", "nan", "more than 0"},
                {"SHOAL_ALGO", "fast", "unknown algorithm"},
                {"SHOAL_ALGO", "barrier:ring", "Barrier has no algorithm"}};
  for (const auto& one : kCases) {
    std::map<std::string, std::string> variables = {{"SHOAL_RANK", "0"},
                                                    {"SHOAL_WORLD_SIZE", "4"},
                                                    {"SHOAL_ADDRESS", "a:1"}};
    variables[one.name] = one.value;
    EXPECT_THAT(TcpOptionsFromEnvironment(Environment(variables)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(one.name), HasSubstr(one.value),
                               HasSubstr(one.wanted))))
        << one.name << "=" << one.value;
  }
}

TEST(EnvironmentTest, AWorldOfOneNeedsNothingElse) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Communicator> communicator,
      CommunicatorFromEnvironment(Environment({{"SHOAL_WORLD_SIZE", "1"}})));
  EXPECT_EQ(communicator->rank(), 0);
  EXPECT_EQ(communicator->world_size(), 1);
  SHOAL_EXPECT_OK(communicator->Barrier());
}

TEST(EnvironmentTest, RankZeroTakesTheListenerThatItInherits) {
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  const std::string address = listener.address();
  const int inherited = std::move(listener).ReleaseDescriptor();
  std::map<std::string, std::string> variables = {
      {"SHOAL_RANK", "1"},
      {"SHOAL_WORLD_SIZE", "2"},
      {"SHOAL_ADDRESS", address},
      {"SHOAL_LISTEN_FD", absl::StrCat(inherited)}};
  SHOAL_ASSERT_OK_AND_ASSIGN(TcpOptions options,
                             TcpOptionsFromEnvironment(Environment(variables)));
  EXPECT_FALSE(options.listener.has_value());
  variables["SHOAL_RANK"] = "0";
  SHOAL_ASSERT_OK_AND_ASSIGN(options,
                             TcpOptionsFromEnvironment(Environment(variables)));
  ASSERT_TRUE(options.listener.has_value());
  EXPECT_EQ(options.listener->address(), address);
  const int again = std::move(*options.listener).ReleaseDescriptor();
  variables["SHOAL_LISTEN_FD"] = absl::StrCat(again);
  variables["SHOAL_WORLD_SIZE"] = "1";
  {
    SHOAL_ASSERT_OK_AND_ASSIGN(
        auto alone, CommunicatorFromEnvironment(Environment(variables)));
    EXPECT_EQ(alone->world_size(), 1);
    EXPECT_EQ(fcntl(again, F_GETFD), -1) << "the descriptor is still open";
  }
  variables["SHOAL_WORLD_SIZE"] = "2";
  variables["SHOAL_LISTEN_FD"] = "9999";
  EXPECT_THAT(TcpOptionsFromEnvironment(Environment(variables)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("descriptor 9999")));
}

TEST(EnvironmentTest, TellsWhetherThereIsAWorld) {
  EXPECT_FALSE(HasWorld(Environment({})));
  EXPECT_FALSE(HasWorld(Environment({{"SHOAL_RANK", ""}})));
  EXPECT_FALSE(HasWorld(Environment({{"SHOAL_TIMEOUT", "3"}})));
  EXPECT_TRUE(HasWorld(Environment({{"SHOAL_RANK", "0"}})));
  EXPECT_TRUE(HasWorld(Environment({{"SHOAL_ADDRESS", "a:1"}})));
  EnvironmentOptions flags = Environment({});
  flags.world.world_size = 2;
  EXPECT_TRUE(HasWorld(flags));
}

TEST(EnvironmentTest, TakesTheFlagsOfAWorld) {
  std::vector<std::string> arguments = {
      "--layers",    "3",  "--rank=2", "file", "-world_size", "4", "--address",
      "[::1]:29500", "--", "--rank",   "7"};
  SHOAL_ASSERT_OK_AND_ASSIGN(const WorldOptions options,
                             TakeWorldFlags(&arguments));
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.world_size, 4);
  EXPECT_EQ(options.address, "[::1]:29500");
  EXPECT_THAT(arguments,
              ElementsAre("--layers", "3", "file", "--", "--rank", "7"));
}

TEST(EnvironmentTest, LeavesOtherFlagsAlone) {
  const std::vector<std::string> all = {"--ranks=2", "rank", "--world",
                                        "4",         "-",    "--r=1"};
  std::vector<std::string> arguments = all;
  SHOAL_ASSERT_OK_AND_ASSIGN(const WorldOptions options,
                             TakeWorldFlags(&arguments));
  EXPECT_FALSE(options.any());
  EXPECT_EQ(arguments, all);
}

TEST(EnvironmentTest, BadFlagsGetOneLine) {
  const struct {
    std::vector<std::string> arguments;
    const char* why;
  } kCases[] = {{{"--rank"}, "--rank needs a value"},
                {{"--rank="}, "--rank needs a value"},
                {{"--rank=two"}, "--rank is \"two\""},
                {{"--world_size", "-1"}, "--world_size is \"-1\""},
                {{"--rank=1", "--rank", "2"}, "--rank is given twice"}};
  for (const auto& one : kCases) {
    std::vector<std::string> arguments = one.arguments;
    EXPECT_THAT(TakeWorldFlags(&arguments),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(one.why), Not(HasSubstr("\n")))));
  }
}

}  // namespace
}  // namespace shoal
