// SPDX-License-Identifier: Apache-2.0
//
// The main() of multi-process tests: one rank of a world, or the tests.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/tests/harness/rank_body.h"

int main(int argc, char** argv) {
  if (shoal::tests::IsRankProcess()) return shoal::tests::RunRankBody();
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
