// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/text_table.h"

#include "gtest/gtest.h"

namespace shoal::tools {
namespace {

using Align = TextTable::Align;

TEST(TextTableTest, AlignsCells) {
  const TextTable table(
      {{"size", Align::kRight, 8}, {"name", Align::kLeft, 6}, {"time"}});
  EXPECT_EQ(table.HeaderLine(), "      size  name    time\n");
  EXPECT_EQ(table.Line({"4 B", "ring", "7"}), "       4 B  ring       7\n");
}

TEST(TextTableTest, LeavesNoBlanksAtTheEnd) {
  const TextTable table({{"a"}, {"role", Align::kLeft, 20}});
  EXPECT_EQ(table.HeaderLine(), "  a  role\n");
  EXPECT_EQ(table.Line({"1", ""}), "  1\n");
  EXPECT_EQ(table.Line({"1"}), "  1\n");
  EXPECT_EQ(table.Line({}), "\n");
}

TEST(TextTableTest, ShowsLongCellsWhole) {
  const TextTable table({{"a"}, {"b"}});
  EXPECT_EQ(table.Line({"12345", "6"}), "  12345  6\n");
}

}  // namespace
}  // namespace shoal::tools
