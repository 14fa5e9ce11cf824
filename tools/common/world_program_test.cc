// SPDX-License-Identifier: Apache-2.0
//
// What does not run a world; the programs' own tests do that.

#include "shoal/tools/common/world_program.h"

#include <stdlib.h>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/environment.h"

namespace shoal::tools {
namespace {

using ::testing::HasSubstr;

TEST(PrepareWorldTest, JoinsWhatIsDescribed) {
  EnvironmentOptions environment;
  EXPECT_THAT(PrepareWorld(environment, false), IsOkAndHolds(false));
  EXPECT_THAT(PrepareWorld(environment, true), IsOkAndHolds(false));
  environment.world.rank = 1;
  EXPECT_THAT(PrepareWorld(environment, false), IsOkAndHolds(true));
  EXPECT_THAT(
      PrepareWorld(environment, true),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--world ")));
}

TEST(PrepareWorldTest, ChecksWhatTheRanksAreGoingToRead) {
  ASSERT_EQ(setenv("SHOAL_TIMEOUT", "soon", 1), 0);
  EXPECT_THAT(
      PrepareWorld({}, false),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SHOAL_TIMEOUT")));
  EXPECT_FALSE(PolicyFromEnvironment().ok());
  unsetenv("SHOAL_TIMEOUT");
}

TEST(PolicyFromEnvironmentTest, IsTheDefaultIfNothingIsSaid) {
  EXPECT_THAT(PolicyFromEnvironment(), IsOkAndHolds(AlgorithmPolicy()));
}

}  // namespace
}  // namespace shoal::tools
