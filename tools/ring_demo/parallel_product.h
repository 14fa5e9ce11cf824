// SPDX-License-Identifier: Apache-2.0
//
// One matrix product, Y = X W, cut over the ranks in both ways of tensor
// parallelism, and held against the whole.
//
//   column-parallel  each rank has some columns of W and makes those of Y,
//                    which are gathered
//   row-parallel     each rank has some rows of W and the columns of X that
//                    meet them, and makes a summand of Y; an all-reduce adds
//
// All sizes are primes, so that in no world but that of one rank do they
// divide: the last rank's shard is longer. Elements are small integers, of
// which f32 holds every sum exactly.

#ifndef SHOAL_TOOLS_RING_DEMO_PARALLEL_PRODUCT_H_
#define SHOAL_TOOLS_RING_DEMO_PARALLEL_PRODUCT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/communicator.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tensor_shard.h"

namespace shoal::ring_demo {

struct ProductFigures {
  ShardDim dim = ShardDim::kColumn;  // of W
  // X is [rows, inner], W is [inner, columns].
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  std::vector<Range> shards;        // by rank
  double seconds = 0;               // products and communication, slowest rank
  std::int64_t wrong_elements = 0;  // of Y, on all ranks
};

// Collective. All ranks get the same figures.
absl::StatusOr<ProductFigures> RunParallelProduct(Communicator* communicator,
                                                  ShardDim dim);

// For people: the table.
std::string ProductsText(const std::vector<ProductFigures>& products);

// The parts that know nothing of a communicator.

// Element [i, k] of X and [k, j] of W.
float ProductX(std::int64_t i, std::int64_t k);
float ProductW(std::int64_t k, std::int64_t j);

// Rows [0, rows) and `columns` of X W, with only the part `inner` of the sums;
// by rows.
std::vector<float> PartOfProduct(std::int64_t rows, const Range& inner,
                                 const Range& columns);

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_PARALLEL_PRODUCT_H_
