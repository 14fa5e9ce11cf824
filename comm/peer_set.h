// SPDX-License-Identifier: Apache-2.0
//
// A set of ranks that is cheap to go through while it is almost empty.
//
// Not thread-safe.

#ifndef SHOAL_COMM_PEER_SET_H_
#define SHOAL_COMM_PEER_SET_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/base/dialect.h"

namespace shoal::internal {

class PeerSet {
 public:
  // For ranks in [0, world_size).
  explicit PeerSet(int world_size) : words_((world_size + 63) / 64) {}

  void Insert(int rank) { words_[rank / 64] |= Bit(rank); }
  void Erase(int rank) { words_[rank / 64] &= ~Bit(rank); }
  bool Contains(int rank) const { return words_[rank / 64] & Bit(rank); }
  void Clear() { words_.assign(words_.size(), 0); }

  // Calls `visit(rank)` in ascending order for each rank that is in the set
  // when its word of 64 ranks is reached. `visit` may change the set.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1) {
        visit(static_cast<int>(i) * 64 + std::countr_zero(word));
      }
    }
  }

 private:
  static std::uint64_t Bit(int rank) { return std::uint64_t{1} << rank % 64; }

  std::vector<std::uint64_t> words_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_PEER_SET_H_
