// SPDX-License-Identifier: Apache-2.0
//
// What reductions come to whose elements travel in another form: the order and
// the rounding that docs/architecture.md states, written down once more, one
// operand after the other. For tests.
//
// Pure functions; thread-safe.

#ifndef SHOAL_COMM_WIRE_REFERENCE_H_
#define SHOAL_COMM_WIRE_REFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal::internal {

using Floats = std::vector<float>;

struct WireCase {
  WireFormat wire = WireFormat::kBF16;
  Algorithm algorithm = Algorithm::kRing;
  ReduceOp op = ReduceOp::kSum;
  int world_size = 1;
  // Of the call: of one part for a reduce-scatter.
  std::int64_t count = 0;

  std::string ToString() const;
};

// Of about one to hundreds, of both signs.
Floats WireInput(int rank, std::int64_t count);

// The results in float; those of f16 and bf16 still have to be rounded.
// `inputs` has those of all ranks.
Floats ExpectedAllReduce(const WireCase& test,
                         const std::vector<Floats>& inputs);
Floats ExpectedReduceScatter(const WireCase& test,
                             const std::vector<Floats>& inputs, int rank);
Floats ExpectedReduce(const WireCase& test, const std::vector<Floats>& inputs,
                      int root);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_WIRE_REFERENCE_H_
