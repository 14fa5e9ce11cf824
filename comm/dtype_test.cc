// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/dtype.h"

#include <cstdint>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/float16.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DTypeTest, ValuesOfTheWireFormat) {
  EXPECT_EQ(static_cast<int>(DType::kF32), 0);
  EXPECT_EQ(static_cast<int>(DType::kF64), 1);
  EXPECT_EQ(static_cast<int>(DType::kF16), 2);
  EXPECT_EQ(static_cast<int>(DType::kBF16), 3);
  EXPECT_EQ(static_cast<int>(DType::kI8), 4);
  EXPECT_EQ(static_cast<int>(DType::kU8), 5);
  EXPECT_EQ(static_cast<int>(DType::kI32), 6);
  EXPECT_EQ(static_cast<int>(DType::kI64), 7);
}

TEST(DTypeTest, ExactlyTheListedOnesAreValid) {
  std::set<int> listed;
  for (const DType dtype : kAllDTypes) listed.insert(static_cast<int>(dtype));
  EXPECT_EQ(listed.size(), std::size(kAllDTypes));
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(IsValidDType(static_cast<DType>(i)), listed.count(i) == 1) << i;
  }
}

template <typename T>
void ExpectType(DType dtype, bool floating_point) {
  EXPECT_EQ(DTypeOf<T>(), dtype);
  EXPECT_EQ(DTypeSize(dtype), sizeof(T));
  EXPECT_EQ(IsFloatingPoint(dtype), floating_point);
}

TEST(DTypeTest, CppTypes) {
  ExpectType<float>(DType::kF32, true);
  ExpectType<double>(DType::kF64, true);
  ExpectType<Float16>(DType::kF16, true);
  ExpectType<BFloat16>(DType::kBF16, true);
  ExpectType<std::int8_t>(DType::kI8, false);
  ExpectType<std::uint8_t>(DType::kU8, false);
  ExpectType<std::int32_t>(DType::kI32, false);
  ExpectType<std::int64_t>(DType::kI64, false);
}

TEST(DTypeTest, NamesAreReadBack) {
  std::set<std::string> names;
  for (const DType dtype : kAllDTypes) {
    names.insert(std::string(DTypeName(dtype)));
    EXPECT_THAT(ParseDType(DTypeName(dtype)), IsOkAndHolds(dtype));
    std::ostringstream text;
    text << dtype;
    EXPECT_EQ(text.str(), DTypeName(dtype));
  }
  EXPECT_EQ(names, (std::set<std::string>{"f32", "f64", "f16", "bf16", "i8",
                                          "u8", "i32", "i64"}));
}

TEST(DTypeTest, WhatIsNoneHasANameThatIsNotReadBack) {
  EXPECT_EQ(DTypeName(static_cast<DType>(17)), "dtype(17)");
  EXPECT_EQ(DTypeName(static_cast<DType>(255)), "dtype(255)");
  for (const char* name : {"", "F32", "f3", "f322", "dtype(17)", "float"}) {
    EXPECT_THAT(
        ParseDType(name),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("\"" + std::string(name) + "\""),
                       HasSubstr("f32, f64, f16, bf16, i8, u8, i32, i64"))));
  }
}

}  // namespace
}  // namespace shoal
