// SPDX-License-Identifier: Apache-2.0
//
// Collective calls for simulations: what each rank puts in, and what has to
// come out, computed without any schedule.
//
// The data of a rank depend on rank, call and element, and are such that every
// reduction is exact: the result is the same in whatever order the ranks'
// operands are combined.
//
// Pure functions; thread-safe.

#ifndef SHOAL_COMM_SIMULATED_CALL_H_
#define SHOAL_COMM_SIMULATED_CALL_H_

#include <cstddef>
#include <string>

#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"

namespace shoal::internal {

struct SimulatedCall {
  CallSignature signature;
  bool in_place = false;
};

// Where a call's buffers lie in the one piece of memory that a simulation gives
// to it: in place as communicator.h has it, else one after the other, with
// bytes before, between and behind them that nobody may touch.
struct CallMemory {
  std::size_t input_at = 0;
  std::size_t input_bytes = 0;
  std::size_t output_at = 0;
  std::size_t output_bytes = 0;
  std::size_t size = 0;
};
CallMemory LayOut(const SimulatedCall& call, int rank, int world_size);

// The memory of `rank` when it makes its `index`th call.
std::string MemoryBefore(const SimulatedCall& call, int rank, int world_size,
                         int index);

// The same when the call has been made by all ranks alike. What a call in place
// leaves in the rest of its input is unspecified; see `SameMemory`.
std::string MemoryAfter(const SimulatedCall& call, int rank, int world_size,
                        int index);

// Whether `actual` is `expected`, wherever the call specifies it.
bool SameMemory(const SimulatedCall& call, int rank, int world_size,
                const std::string& actual, const std::string& expected);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SIMULATED_CALL_H_
