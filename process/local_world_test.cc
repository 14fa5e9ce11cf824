// SPDX-License-Identifier: Apache-2.0

#include "shoal/process/local_world.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/stopwatch.h"
#include "shoal/comm/tcp_listener.h"
#include "shoal/process/child_processes.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr char kRankVariable[] = "SHOAL_TEST_IS_RANK";

// What a rank has been told, one word a variable; run in place of the tests.
int PrintEnvironment(char** argv) {
  const auto variable = [](const char* name) {
    const char* value = getenv(name);
    return value == nullptr ? "none" : value;
  };
  int descriptor = -1;
  bool listens = false;
  if (absl::SimpleAtoi(variable("SHOAL_LISTEN_FD"), &descriptor)) {
    const auto listener = TcpListener::FromDescriptor(descriptor);
    listens = listener.ok() && listener->address() == variable("SHOAL_ADDRESS");
  }
  std::printf("%s %s %s %s %s %s", argv[1], variable("SHOAL_RANK"),
              variable("SHOAL_WORLD_SIZE"), variable("SHOAL_ADDRESS"),
              variable("SHOAL_JOB_ID"), listens ? "listens" : "waits");
  return 0;
}

// What each rank of a world printed.
std::vector<std::vector<std::string>> Words(LocalWorld* world) {
  const Stopwatch stopwatch;
  while (world->ranks->running() > 0 &&
         stopwatch.Elapsed() < absl::Minutes(1)) {
    world->ranks->Step(absl::Seconds(1));
  }
  std::vector<std::vector<std::string>> words;
  for (int rank = 0; rank < world->ranks->size(); ++rank) {
    words.push_back(absl::StrSplit(world->ranks->output(rank), ' '));
  }
  return words;
}

LocalWorldOptions Options(int world_size) {
  return {.world_size = world_size,
          .arguments = {"program", "flag"},
          .environment = {{kRankVariable, "1"}}};
}

TEST(LocalWorldTest, EveryRankKnowsItsPlace) {
  SHOAL_ASSERT_OK_AND_ASSIGN(LocalWorld world, StartLocalWorld(Options(3)));
  EXPECT_THAT(world.address, StartsWith("127.0.0.1:"));
  EXPECT_THAT(
      Words(&world),
      ElementsAre(
          ElementsAre("flag", "0", "3", world.address, world.job_id, "listens"),
          ElementsAre("flag", "1", "3", world.address, world.job_id, "waits"),
          ElementsAre("flag", "2", "3", world.address, world.job_id, "waits")));
}

TEST(LocalWorldTest, ASingleRankNeedsNoAddress) {
  SHOAL_ASSERT_OK_AND_ASSIGN(LocalWorld world, StartLocalWorld(Options(1)));
  EXPECT_EQ(world.address, "");
  EXPECT_THAT(Words(&world), ElementsAre(ElementsAre("flag", "0", "1", "none",
                                                     world.job_id, "waits")));
}

TEST(LocalWorldTest, WorldsDifferInAddressAndJob) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const LocalWorld a, StartLocalWorld(Options(2)));
  SHOAL_ASSERT_OK_AND_ASSIGN(const LocalWorld b, StartLocalWorld(Options(2)));
  EXPECT_NE(a.address, b.address);
  EXPECT_NE(a.job_id, b.job_id);
}

// The next descriptor that is opened is 0 then.
TEST(LocalWorldTest, TheLauncherNeedsNoStandardInput) {
  const int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(STDIN_FILENO);
  absl::StatusOr<LocalWorld> world = StartLocalWorld(Options(2));
  if (input >= 0) {
    dup2(input, STDIN_FILENO);
    close(input);
  }
  ASSERT_THAT(world, IsOk());
  EXPECT_THAT(Words(&*world),
              ElementsAre(ElementsAre("flag", "0", "2", world->address,
                                      world->job_id, "listens"),
                          ElementsAre("flag", "1", "2", world->address,
                                      world->job_id, "waits")));
}

TEST(LocalWorldTest, AWorldHasARank) {
  EXPECT_THAT(StartLocalWorld(Options(0)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace

int TestOrRank(int argc, char** argv) {
  if (getenv(kRankVariable) != nullptr) return PrintEnvironment(argv);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace shoal

int main(int argc, char** argv) { return shoal::TestOrRank(argc, argv); }
