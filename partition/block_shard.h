// SPDX-License-Identifier: Apache-2.0
//
// BlockShard: a part of a dimension that is made of whole blocks, so that no
// shard cuts a quantised block.
//
// Quantised weights are stored in blocks of consecutive weights that share a
// scale; half a block cannot be read. The full_size / block_size blocks are cut
// as evenly as possible: every rank gets blocks / world_size of them, and the
// first blocks % world_size ranks one more. This is not the rule of
// TensorShard, where the last rank takes the remainder: at 43 blocks over 4
// ranks (11008 columns of a 7B Llama in K-quants) that would give it 13 blocks
// and the others 10, here it is 11, 11, 11 and 10. Where the blocks divide
// evenly the two are the same. A layer whose output feeds a block-aligned one
// must be cut by the same BlockShard.
//
// An immutable value: every object is valid, and safe to read from any thread.
#ifndef SHOAL_PARTITION_BLOCK_SHARD_H_
#define SHOAL_PARTITION_BLOCK_SHARD_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "shoal/partition/range.h"

namespace shoal {

// Weights a block in the formats of GGUF files (ggml's QK4_0, QK8_0 and QK_K).
inline constexpr int64_t kQ4_0BlockSize = 32;
inline constexpr int64_t kQ8_0BlockSize = 32;
inline constexpr int64_t kKQuantBlockSize = 256;

class BlockShard {
 public:
  // The shard of `rank` of a dimension of `full_size` indices in blocks of
  // `block_size`. With more ranks than blocks the last ranks get empty ranges.
  // kInvalidArgument if world_size <= 0, rank is outside [0, world_size),
  // full_size is negative, block_size is not positive, or full_size is not a
  // multiple of it.
  static absl::StatusOr<BlockShard> Create(int64_t full_size,
                                           int64_t block_size, int rank,
                                           int world_size);

  int64_t full_size() const { return full_size_; }
  int64_t block_size() const { return block_size_; }
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // The blocks that this rank owns, and their indices. The ranges of all ranks
  // tile [0, full_size) in rank order.
  Range blocks() const;
  Range range() const;

  // "rank 0 of 4: [0, 2816) of 11008, blocks [0, 11) of 256".
  std::string ToString() const;

  friend bool operator==(const BlockShard&, const BlockShard&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const BlockShard& shard) {
    return H::combine(std::move(h), shard.full_size_, shard.block_size_,
                      shard.rank_, shard.world_size_);
  }
  friend std::ostream& operator<<(std::ostream& os, const BlockShard& shard) {
    return os << shard.ToString();
  }

 private:
  BlockShard(int64_t full_size, int64_t block_size, int rank, int world_size)
      : full_size_(full_size),
        block_size_(block_size),
        rank_(rank),
        world_size_(world_size) {}

  int64_t full_size_;
  int64_t block_size_;
  int rank_;
  int world_size_;
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_BLOCK_SHARD_H_
