// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/reduce_op.h"

#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/dtype.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ReduceOpTest, ValuesOfTheWireFormat) {
  EXPECT_EQ(static_cast<int>(ReduceOp::kSum), 0);
  EXPECT_EQ(static_cast<int>(ReduceOp::kProduct), 1);
  EXPECT_EQ(static_cast<int>(ReduceOp::kMin), 2);
  EXPECT_EQ(static_cast<int>(ReduceOp::kMax), 3);
  EXPECT_EQ(static_cast<int>(ReduceOp::kAverage), 4);
  EXPECT_EQ(static_cast<int>(ReduceOp::kAnd), 5);
  EXPECT_EQ(static_cast<int>(ReduceOp::kOr), 6);
  EXPECT_EQ(static_cast<int>(ReduceOp::kXor), 7);
  EXPECT_EQ(static_cast<int>(ReduceOp::kUser), 8);
}

TEST(ReduceOpTest, ExactlyTheListedOnesAndTheUsersAreValid) {
  std::set<int> listed = {static_cast<int>(ReduceOp::kUser)};
  for (const ReduceOp op : kAllReduceOps) listed.insert(static_cast<int>(op));
  EXPECT_EQ(listed.size(), std::size(kAllReduceOps) + 1);
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(IsValidReduceOp(static_cast<ReduceOp>(i)), listed.count(i) == 1)
        << i;
  }
}

TEST(ReduceOpTest, NamesAreReadBack) {
  std::set<std::string> names;
  for (const ReduceOp op : kAllReduceOps) {
    names.insert(std::string(ReduceOpName(op)));
    EXPECT_THAT(ParseReduceOp(ReduceOpName(op)), IsOkAndHolds(op));
    std::ostringstream text;
    text << op;
    EXPECT_EQ(text.str(), ReduceOpName(op));
  }
  EXPECT_EQ(names, (std::set<std::string>{"sum", "product", "min", "max",
                                          "average", "and", "or", "xor"}));
}

TEST(ReduceOpTest, BitsAreCombinedOfIntegersOnly) {
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllReduceOps) {
      const bool of_bits =
          op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
      EXPECT_EQ(ReduceOpTakes(op, dtype), !of_bits || !IsFloatingPoint(dtype))
          << op << " " << dtype;
    }
  }
}

TEST(ReduceOpTest, TakesTheNamesOfNcclTests) {
  EXPECT_THAT(ParseReduceOp("prod"), IsOkAndHolds(ReduceOp::kProduct));
  EXPECT_THAT(ParseReduceOp("avg"), IsOkAndHolds(ReduceOp::kAverage));
}

TEST(ReduceOpTest, WhatIsNoneHasANameThatIsNotReadBack) {
  EXPECT_EQ(ReduceOpName(ReduceOp::kUser), "user");
  EXPECT_EQ(ReduceOpName(static_cast<ReduceOp>(99)), "op(99)");
  for (const char* name : {"", "Sum", "mean", "user", "op(99)"}) {
    EXPECT_THAT(
        ParseReduceOp(name),
        StatusIs(
            absl::StatusCode::kInvalidArgument,
            AllOf(HasSubstr("\"" + std::string(name) + "\""),
                  HasSubstr("sum, product, min, max, average, and, or, xor"))));
  }
}

}  // namespace
}  // namespace shoal
