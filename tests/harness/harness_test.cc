// SPDX-License-Identifier: Apache-2.0
//
// That the harness reports what ranks do, above all what they do wrong.

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void Print(FILE* file, const std::string& line) {
  std::fprintf(file, "%s\n", line.c_str());
  std::fflush(file);
}

SHOAL_RANK_BODY(Succeed) {
  Print(stdout, absl::StrCat("out of ", context.rank, "/", context.world_size,
                             " ", context.argument));
  Print(stderr, absl::StrCat("err of ", context.rank));
  return absl::OkStatus();
}

SHOAL_RANK_BODY(OneFails) {
  Print(stdout, absl::StrCat("hello from ", context.rank));
  if (context.rank == 1) return absl::DataLossError("the sum is 4, not 3");
  return absl::OkStatus();
}

SHOAL_RANK_BODY(OneCrashes) {
  Print(stdout, absl::StrCat("hello from ", context.rank));
  if (context.rank == 2) {
    Print(stderr, "last words");
    abort();
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(OneHangs) {
  Print(stdout, absl::StrCat("hello from ", context.rank));
  while (context.rank == 0) pause();
  return absl::OkStatus();
}

SHOAL_RANK_BODY(OneFailsOthersHang) {
  if (context.rank == 1) return absl::AbortedError("first to fail");
  while (true) pause();
}

SHOAL_RANK_BODY(OneIsKilledOneStops) {
  if (context.rank == 0) raise(SIGKILL);
  if (context.rank == 1) raise(SIGSTOP);
  return absl::OkStatus();
}

SHOAL_RANK_BODY(PrintsWithoutEnd) {
  const std::string line(1000, '0' + context.rank);
  for (int i = 0; i < 20'000; ++i) Print(i % 2 == 0 ? stdout : stderr, line);
  return absl::OkStatus();
}

// The message of an expected failure, as it would be shown.
std::string FailureOf(const ::testing::AssertionResult& result) {
  return result ? "unexpected success" : result.message();
}

TEST(HarnessTest, SuccessOfAllIsSuccess) {
  for (int world = 1; world <= 8; ++world) {
    EXPECT_TRUE(WorldSucceeds("Succeed", world));
  }
}

TEST(HarnessTest, OutputIsKeptByRank) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const WorldResult result,
      RunWorld("Succeed", 3, {.argument = "with argument"}));
  ASSERT_EQ(result.ranks.size(), 3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(result.ranks[rank].output,
              absl::StrCat("out of ", rank, "/3 with argument\n"));
    EXPECT_EQ(result.ranks[rank].error_output,
              absl::StrCat("err of ", rank, "\n"));
    EXPECT_TRUE(result.ranks[rank].exit.ok());
    EXPECT_NE(result.ranks[rank].pid, getpid());
  }
}

TEST(HarnessTest, AFailingRankIsReportedWithEveryOutput) {
  EXPECT_THAT(FailureOf(WorldSucceeds("OneFails", 3)),
              AllOf(HasSubstr("hello from 0"), HasSubstr("hello from 1"),
                    HasSubstr("hello from 2"), HasSubstr("OneFails"),
                    HasSubstr("rank 1 of 3: DATA_LOSS: the sum is 4, not 3"),
                    HasSubstr("exited with code 1")));
}

TEST(HarnessTest, ACrashingRankIsReported) {
  EXPECT_THAT(FailureOf(WorldSucceeds("OneCrashes", 4)),
              AllOf(HasSubstr("hello from 0"), HasSubstr("hello from 3"),
                    HasSubstr("last words"),
                    HasSubstr("was killed by signal 6 (SIGABRT)")));
}

TEST(HarnessTest, AHangingRankIsReportedAtTheDeadline) {
  EXPECT_THAT(FailureOf(WorldSucceeds("OneHangs", 2,
                                      {.deadline = absl::Milliseconds(500)})),
              AllOf(HasSubstr("not done in time"), HasSubstr("hello from 0"),
                    HasSubstr("was still running and was killed by signal 9"),
                    HasSubstr("hello from 1")));
}

TEST(HarnessTest, OthersDoNotHangLongAfterAFailure) {
  const std::string failure =
      FailureOf(WorldSucceeds("OneFailsOthersHang", 3,
                              {.deadline = absl::InfiniteDuration(),
                               .after_failure = absl::Milliseconds(200)}));
  EXPECT_THAT(failure,
              AllOf(HasSubstr("first to fail"), HasSubstr("was still running"),
                    Not(HasSubstr("not done in time"))));
}

TEST(HarnessTest, ExpectedDeathsAreNoFailures) {
  const WorldOptions options = {.killed_by = {{0, SIGKILL}}, .stopped = {1}};
  EXPECT_TRUE(WorldSucceeds("OneIsKilledOneStops", 3, options));
  // Those expected and not come are.
  EXPECT_FALSE(WorldSucceeds("Succeed", 3, options));
  EXPECT_FALSE(WorldSucceeds("Succeed", 3, {.killed_by = {{2, SIGKILL}}}));
  EXPECT_FALSE(WorldSucceeds("Succeed", 3, {.stopped = {2}}));
}

TEST(HarnessTest, RanksMayPrintAsFastAsTheyCan) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const WorldResult result,
                             RunWorld("PrintsWithoutEnd", 4));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(result.ranks[rank].exit.ok());
    const std::string& output = result.ranks[rank].output;
    EXPECT_EQ(static_cast<std::size_t>(
                  std::count(output.begin(), output.end(), '0' + rank) +
                  std::count(output.begin(), output.end(), '\n')),
              output.size());
  }
}

TEST(HarnessTest, ABodyThatIsNotThereIsAnError) {
  EXPECT_THAT(RunWorld("Nobody", 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Nobody")));
  EXPECT_FALSE(WorldSucceeds("Nobody", 1));
  EXPECT_THAT(RunWorld("Succeed", 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ExpectStatusTest, NeedsTheCodeAndEveryWord) {
  const absl::Status status = absl::UnavailableError("rank 2 died");
  const auto code = absl::StatusCode::kUnavailable;
  SHOAL_EXPECT_OK(ExpectStatus(status, code, {"rank 2", "died"}));
  EXPECT_THAT(ExpectStatus(status, code, {"rank 2", "silent"}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("rank 2 died")));
  EXPECT_FALSE(ExpectStatus(status, absl::StatusCode::kOk).ok());
  SHOAL_EXPECT_OK(ExpectStatus(absl::OkStatus(), absl::StatusCode::kOk, {}));
}

}  // namespace
}  // namespace shoal::tests
