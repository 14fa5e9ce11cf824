// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/wire_format.h"

#include <sstream>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/dtype.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WireFormatTest, ValuesOfTheWireFormat) {
  EXPECT_EQ(static_cast<int>(WireFormat::kAsData), 0);
  EXPECT_EQ(static_cast<int>(WireFormat::kF32), 1);
  EXPECT_EQ(static_cast<int>(WireFormat::kBF16), 2);
  EXPECT_EQ(static_cast<int>(WireFormat::kQ8_0), 3);
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(IsValidWireFormat(static_cast<WireFormat>(i)), i < 4);
  }
}

TEST(WireFormatTest, NamesAreReadBack) {
  for (const WireFormat wire : kAllWireFormats) {
    EXPECT_THAT(ParseWireFormat(WireFormatName(wire)), IsOkAndHolds(wire));
    std::ostringstream text;
    text << wire;
    EXPECT_EQ(text.str(), WireFormatName(wire));
  }
  EXPECT_EQ(WireFormatName(static_cast<WireFormat>(9)), "wire(9)");
  EXPECT_THAT(
      ParseWireFormat("q4"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"q4\""), HasSubstr("data, f32, bf16, q8_0"))));
}

TEST(WireFormatTest, NarrowsF32AndWidensTheHalves) {
  for (const DType dtype : kAllDTypes) {
    const bool half = dtype == DType::kF16 || dtype == DType::kBF16;
    EXPECT_TRUE(WireFormatTakes(WireFormat::kAsData, dtype));
    EXPECT_EQ(WireFormatTakes(WireFormat::kF32, dtype), half);
    EXPECT_EQ(WireFormatTakes(WireFormat::kBF16, dtype), dtype == DType::kF32);
    EXPECT_EQ(WireFormatTakes(WireFormat::kQ8_0, dtype), dtype == DType::kF32);
  }
}

}  // namespace
}  // namespace shoal
