// SPDX-License-Identifier: Apache-2.0
//
// Aligned columns of plain text, one line at a time, so that a long table can
// be shown while its rows are still being made.

#ifndef SHOAL_TOOLS_COMMON_TEXT_TABLE_H_
#define SHOAL_TOOLS_COMMON_TEXT_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dialect.h"

namespace shoal::tools {

class TextTable {
 public:
  enum class Align { kLeft, kRight };

  struct Column {
    std::string header;
    Align align = Align::kRight;
    // A column is as wide as its header, or this. A longer cell is shown
    // whole, and moves the rest of its line.
    int width = 0;
  };

  explicit TextTable(std::vector<Column> columns)
      : columns_(std::move(columns)) {}

  // One line each, ending in a line feed and without blanks before it. Cells
  // that are missing are empty.
  std::string HeaderLine() const;
  std::string Line(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

}  // namespace shoal::tools

#endif  // SHOAL_TOOLS_COMMON_TEXT_TABLE_H_
