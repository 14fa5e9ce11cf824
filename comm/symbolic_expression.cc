// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/symbolic_expression.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace shoal::internal {

ExpressionTable::ExpressionTable(int world_size)
    : world_size_(world_size), nodes_(world_size) {}

ExpressionId ExpressionTable::Find(ExpressionId first, ExpressionId second) {
  // Neighbouring elements are computed alike.
  if (last_ != kNone && nodes_[last_].first == first &&
      nodes_[last_].second == second) {
    return last_;
  }
  const auto [found, is_new] = ids_.try_emplace(
      {first, second}, static_cast<ExpressionId>(nodes_.size()));
  if (is_new) nodes_.push_back({first, second});
  last_ = found->second;
  return last_;
}

ExpressionId ExpressionTable::Combine(ExpressionId first, ExpressionId second) {
  return Find(first, second);
}

ExpressionId ExpressionTable::Complete(ExpressionId inner) {
  return Find(inner, kNone);
}

// For every expression, how often it is a part of `id`.
std::vector<int> ExpressionTable::Multiplicities(ExpressionId id) const {
  constexpr int kMany = 1000;
  std::vector<int> times(id + 1, 0);
  times[id] = 1;
  for (ExpressionId i = id; i >= world_size_; --i) {
    if (times[i] == 0) continue;
    for (const ExpressionId part : {nodes_[i].first, nodes_[i].second}) {
      if (part != kNone) times[part] = std::min(kMany, times[part] + times[i]);
    }
  }
  return times;
}

std::vector<int> ExpressionTable::Contributions(ExpressionId id) const {
  std::vector<int> times = Multiplicities(id);
  times.resize(world_size_, 0);
  return times;
}

int ExpressionTable::Completions(ExpressionId id) const {
  const std::vector<int> times = Multiplicities(id);
  int completions = 0;
  for (std::size_t i = world_size_; i < times.size(); ++i) {
    if (nodes_[i].second == kNone) completions += times[i];
  }
  return completions;
}

std::string ExpressionTable::ToString(ExpressionId id) const {
  std::string text;
  Append(id, &text);
  return text;
}

void ExpressionTable::Append(ExpressionId id, std::string* text) const {
  if (text->size() > 400) {
    if (text->back() != '.') text->append("...");
    return;
  }
  const Node& node = nodes_[id];
  if (id < world_size_) {
    absl::StrAppend(text, "x", id);
  } else if (node.second == kNone) {
    text->append("done(");
    Append(node.first, text);
    text->append(")");
  } else {
    text->append("(");
    Append(node.first, text);
    text->append(" op ");
    Append(node.second, text);
    text->append(")");
  }
}

}  // namespace shoal::internal
