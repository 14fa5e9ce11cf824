// SPDX-License-Identifier: Apache-2.0
//
// Reductions as expressions instead of numbers, for schedule_verifier.h.
//
// An expression says which ranks' operands were combined, in which order, and
// where a reduction was completed. Equal expressions have equal ids, so that
// comparing is cheap. Not thread-safe.

#ifndef SHOAL_COMM_SYMBOLIC_EXPRESSION_H_
#define SHOAL_COMM_SYMBOLIC_EXPRESSION_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

using ExpressionId = std::int32_t;

class ExpressionTable {
 public:
  explicit ExpressionTable(int world_size);

  int world_size() const { return world_size_; }

  // The operand of `rank`.
  ExpressionId Operand(int rank) const { return rank; }
  // (first op second)
  ExpressionId Combine(ExpressionId first, ExpressionId second);
  // The last part of the op applied to `inner`.
  ExpressionId Complete(ExpressionId inner);

  // How often each rank's operand is contained; more than 1000 counts as 1000.
  std::vector<int> Contributions(ExpressionId id) const;
  // How often `Complete` is contained, in the same way.
  int Completions(ExpressionId id) const;

  // "((x1 op x2) op x0)", "done(...)"; cut after some hundred characters.
  std::string ToString(ExpressionId id) const;

 private:
  static constexpr ExpressionId kNone = -1;

  // `second` is kNone for Complete; both are for an operand.
  struct Node {
    ExpressionId first = kNone;
    ExpressionId second = kNone;
  };

  ExpressionId Find(ExpressionId first, ExpressionId second);
  std::vector<int> Multiplicities(ExpressionId id) const;
  void Append(ExpressionId id, std::string* text) const;

  const int world_size_;
  // An expression's parts stand before it; the operands come first.
  std::vector<Node> nodes_;
  absl::flat_hash_map<std::pair<ExpressionId, ExpressionId>, ExpressionId> ids_;
  ExpressionId last_ = kNone;  // that was asked for
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SYMBOLIC_EXPRESSION_H_
