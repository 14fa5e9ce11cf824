// SPDX-License-Identifier: Apache-2.0
//
// Range: the half-open range [begin, end) of indices (layers, rows, columns,
// heads, tokens) in which every partition of this package is expressed.
//
// A plain value without an owner. Const member functions may be called from any
// thread. A range that a function of Shoal returns is always valid; one from
// outside is checked with Validate().
#ifndef SHOAL_PARTITION_RANGE_H_
#define SHOAL_PARTITION_RANGE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"

namespace shoal {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;  // Exclusive.

  // OK if 0 <= begin <= end, else kInvalidArgument naming both.
  absl::Status Validate() const;

  // Number of indices. REQUIRES: Validate().ok().
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool Contains(int64_t index) const { return begin <= index && index < end; }

  // In mathematical notation: "[3, 6)".
  std::string ToString() const;

  friend bool operator==(const Range&, const Range&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Range& range) {
    return H::combine(std::move(h), range.begin, range.end);
  }
  friend std::ostream& operator<<(std::ostream& os, const Range& range) {
    return os << range.ToString();
  }
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_RANGE_H_
