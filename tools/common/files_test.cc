// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/files.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::tools {
namespace {

using ::testing::HasSubstr;

TEST(WriteFileTest, WritesOrSaysWhyNot) {
  const std::string path = absl::StrCat(testing::TempDir(), "/figures.json");
  SHOAL_ASSERT_OK(WriteFile(path, "a longer text"));
  SHOAL_ASSERT_OK(WriteFile(path, "text"));
  EXPECT_THAT(ReadFile(path), IsOkAndHolds("text"));
  EXPECT_THAT(WriteFile("/nowhere/figures.json", ""),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nowhere/figures.json")));
  EXPECT_FALSE(WriteFile("/dev/full", "text").ok());
}

TEST(WriteFileTest, WaitsForNobody) {
  const std::string fifo = absl::StrCat(testing::TempDir(), "/fifo");
  unlink(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, testing::TempDir()}) {
    EXPECT_THAT(WriteFile(path, "text"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
    EXPECT_THAT(ReadFile(path),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
  }
}

TEST(ReadFileTest, HoldsAllBytes) {
  const std::string path = absl::StrCat(testing::TempDir(), "/large");
  std::string text(100'000, 'x');
  text[70'000] = '\0';
  SHOAL_ASSERT_OK(WriteFile(path, text));
  EXPECT_THAT(ReadFile(path), IsOkAndHolds(text));
  EXPECT_THAT(ReadFile(absl::StrCat(path, ".no")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("large.no")));
}

TEST(FromCallersDirectoryTest, IsWhereBazelRunWasCalled) {
  unsetenv("BUILD_WORKING_DIRECTORY");
  EXPECT_EQ(FromCallersDirectory("a/b"), "a/b");
  ASSERT_EQ(setenv("BUILD_WORKING_DIRECTORY", "/home", 1), 0);
  EXPECT_EQ(FromCallersDirectory("a/b"), "/home/a/b");
  EXPECT_EQ(FromCallersDirectory("/a/b"), "/a/b");
  EXPECT_EQ(FromCallersDirectory(""), "");
  unsetenv("BUILD_WORKING_DIRECTORY");
}

}  // namespace
}  // namespace shoal::tools
