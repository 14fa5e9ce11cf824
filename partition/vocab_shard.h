// SPDX-License-Identifier: Apache-2.0
//
// VocabShard: which tokens of a vocabulary one rank of a tensor-parallel group
// owns, in the embedding table and in the LM head.
//
// The vocabulary is padded so that every rank has equally many rows, each a
// multiple of `pad_to` (Megatron-LM's make_vocab_size_divisible_by):
//
//   padded_size = the least multiple of pad_to * world_size that is
//                 >= vocab_size
//   rank r's rows [r * padded_size/N, (r + 1) * padded_size/N)
//
// Rows from vocab_size on are padding: no token has them, and their logits must
// be masked to -infinity before sampling. The last ranks may own nothing but
// padding.
//
// An immutable value: every object is valid, and safe to read from any thread.
#ifndef SHOAL_PARTITION_VOCAB_SHARD_H_
#define SHOAL_PARTITION_VOCAB_SHARD_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "shoal/partition/range.h"

namespace shoal {

class VocabShard {
 public:
  // The shard of `rank` of a vocabulary of `vocab_size` tokens.
  // kInvalidArgument if world_size <= 0, rank is outside [0, world_size), or
  // vocab_size or pad_to is not positive; kOutOfRange if the padded size is not
  // an int64_t.
  static absl::StatusOr<VocabShard> Create(int64_t vocab_size, int64_t pad_to,
                                           int rank, int world_size);

  int64_t vocab_size() const { return vocab_size_; }
  int64_t pad_to() const { return pad_to_; }
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Rows of all ranks together, and of each rank, padding included.
  int64_t padded_size() const { return rows_per_rank_ * world_size_; }
  int64_t rows_per_rank() const { return rows_per_rank_; }

  // This rank's rows, padding included.
  Range padded_range() const;
  // The tokens among them: padded_range() without what lies at or beyond
  // vocab_size. The ranges of all ranks tile [0, vocab_size) in rank order.
  Range token_range() const;
  // How many of this rank's rows, always the last ones, are padding.
  int64_t padding() const;

  // The rank that owns `token`. kInvalidArgument if token is outside
  // [0, vocab_size).
  absl::StatusOr<int> OwnerOf(int64_t token) const;

  // "rank 3 of 4: tokens [96, 101) of 101, 27 rows of padding".
  std::string ToString() const;

  friend bool operator==(const VocabShard&, const VocabShard&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const VocabShard& shard) {
    return H::combine(std::move(h), shard.vocab_size_, shard.pad_to_,
                      shard.rank_, shard.world_size_);
  }
  friend std::ostream& operator<<(std::ostream& os, const VocabShard& shard) {
    return os << shard.ToString();
  }

 private:
  VocabShard(int64_t vocab_size, int64_t pad_to, int rank, int world_size,
             int64_t rows_per_rank)
      : vocab_size_(vocab_size),
        pad_to_(pad_to),
        rank_(rank),
        world_size_(world_size),
        rows_per_rank_(rows_per_rank) {}

  int64_t vocab_size_;
  int64_t pad_to_;
  int rank_;
  int world_size_;
  int64_t rows_per_rank_;  // Follows from the others.
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_VOCAB_SHARD_H_
