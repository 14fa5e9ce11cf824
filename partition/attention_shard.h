// SPDX-License-Identifier: Apache-2.0
//
// AttentionShard: which whole heads of a (grouped-query) attention layer one
// rank of a tensor-parallel group owns.
//
// With H query heads, K key-value heads and N ranks, each KV head serves H / K
// query heads: query head q attends with KV head q / (H / K). Rank r owns
//
//   query heads  [r * H/N, (r + 1) * H/N)
//   KV heads     [r * K/N, (r + 1) * K/N)   if N <= K
//                [r / (N/K), r / (N/K) + 1) if N > K: each KV head is
//                replicated
//                                           on N/K ranks
//
// so that a rank always has the KV heads of its query heads and attention
// itself needs no communication (Megatron-LM for whole heads, vLLM's
// QKVParallelLinear for the replication). All divisions must come out even;
// what cannot agree is refused here, at planning time:
//
//   heads (6) not divisible by tensor-parallel size (4)
//
// An immutable value: every object is valid, and safe to read from any thread.
#ifndef SHOAL_PARTITION_ATTENTION_SHARD_H_
#define SHOAL_PARTITION_ATTENTION_SHARD_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "shoal/partition/range.h"

namespace shoal {

class AttentionShard {
 public:
  // The shard of `rank` of a layer with `num_heads` query heads and
  // `num_kv_heads` KV heads. kInvalidArgument if
  // - world_size <= 0 or rank is outside [0, world_size);
  // - a head count is not positive, or num_heads is not a multiple of
  //   num_kv_heads;
  // - num_heads is not a multiple of world_size;
  // - neither of num_kv_heads and world_size is a multiple of the other.
  static absl::StatusOr<AttentionShard> Create(int64_t num_heads,
                                               int64_t num_kv_heads, int rank,
                                               int world_size);

  int64_t num_heads() const { return num_heads_; }
  int64_t num_kv_heads() const { return num_kv_heads_; }
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // The query heads that this rank owns, and no other rank.
  Range query_heads() const;
  // The KV heads that this rank holds.
  Range kv_heads() const;
  // On how many ranks each KV head is held: 1 where N <= K.
  int64_t kv_replicas() const;

  // The columns of a projection's output that `heads` occupy, `head_dim`
  // columns a head. kInvalidArgument if heads is no valid range or head_dim is
  // not positive, kOutOfRange if a column's number is not an int64_t.
  static absl::StatusOr<Range> HeadColumns(const Range& heads,
                                           int64_t head_dim);

  // "rank 1 of 4: query heads [8, 16) of 32, KV heads [2, 4) of 8", and
  // ", each on 2 ranks" where they are replicated.
  std::string ToString() const;

  friend bool operator==(const AttentionShard&,
                         const AttentionShard&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AttentionShard& shard) {
    return H::combine(std::move(h), shard.num_heads_, shard.num_kv_heads_,
                      shard.rank_, shard.world_size_);
  }
  friend std::ostream& operator<<(std::ostream& os,
                                  const AttentionShard& shard) {
    return os << shard.ToString();
  }

 private:
  AttentionShard(int64_t num_heads, int64_t num_kv_heads, int rank,
                 int world_size)
      : num_heads_(num_heads),
        num_kv_heads_(num_kv_heads),
        rank_(rank),
        world_size_(world_size) {}

  int64_t num_heads_;
  int64_t num_kv_heads_;
  int rank_;
  int world_size_;
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_ATTENTION_SHARD_H_
