// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/text_table.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace shoal::tools {

std::string TextTable::HeaderLine() const {
  std::vector<std::string> headers;
  headers.reserve(columns_.size());
  for (const Column& column : columns_) headers.push_back(column.header);
  return Line(headers);
}

std::string TextTable::Line(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const std::string cell = i < cells.size() ? cells[i] : "";
    const std::size_t width =
        std::max(column.header.size(), static_cast<std::size_t>(column.width));
    const std::string padding(width - std::min(width, cell.size()), ' ');
    if (column.align == Align::kRight) {
      absl::StrAppend(&line, "  ", padding, cell);
    } else {
      absl::StrAppend(&line, "  ", cell, padding);
    }
  }
  absl::StripTrailingAsciiWhitespace(&line);
  return absl::StrCat(line, "\n");
}

}  // namespace shoal::tools
