// SPDX-License-Identifier: Apache-2.0
//
// Vectors of any type whose elements depend on rank and place, and what
// reductions of them have to be, bit by bit.
//
// The arithmetic here is written down once more, one element at a time, from
// the words of docs/architecture.md: it shares nothing with comm's but the
// conversions of float16.h.

#ifndef SHOAL_TESTS_COMM_TEST_VECTOR_H_
#define SHOAL_TESTS_COMM_TEST_VECTOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::tests {

// A buffer that may lie anywhere, with guards at both ends.
class TestVector {
 public:
  // Holds 0x5A bytes. `misalignment` is added to an address that fits all
  // types.
  TestVector(DType dtype, std::int64_t count, int misalignment = 0);

  DType dtype() const { return dtype_; }
  std::int64_t count() const { return count_; }
  std::size_t size_bytes() const { return count_ * DTypeSize(dtype_); }

  std::uint8_t* data() { return bytes_.data() + offset_; }
  const std::uint8_t* data() const { return bytes_.data() + offset_; }

  Buffer buffer() { return {data(), count_, dtype_}; }
  ConstBuffer const_buffer() const { return {data(), count_, dtype_}; }
  // Elements [begin, begin + count).
  Buffer part(std::int64_t begin, std::int64_t count);

  // Element i becomes InputBits(dtype, rank, i).
  void Fill(int rank);

  std::uint64_t Bits(std::int64_t i) const;

  // OK if nothing was written outside of it.
  absl::Status CheckGuards() const;

  // A hash of all bytes.
  std::uint64_t Hash() const;

 private:
  DType dtype_;
  std::int64_t count_;
  std::size_t offset_;
  std::vector<std::uint8_t> bytes_;
};

// Element i of a rank's input. Floating-point elements have a random sign and
// fraction and a magnitude from 0.5 to 2: their sums round differently in every
// other order, and their products stay finite. Integers are any.
std::uint64_t InputBits(DType dtype, int rank, std::int64_t i);

// What an all-reduce of `count` elements over the inputs makes of element i, in
// the documented order of `algorithm`.
std::uint64_t AllReduceBits(DType dtype, ReduceOp op, Algorithm algorithm,
                            int world_size, std::int64_t count, std::int64_t i);

// What a reduce-scatter over inputs of world_size * count elements makes of
// element i of rank `part`'s output.
std::uint64_t ReduceScatterBits(DType dtype, ReduceOp op, Algorithm algorithm,
                                int world_size, std::int64_t count, int part,
                                std::int64_t i);

// What a reduce makes of element i of the root's output.
std::uint64_t ReduceBits(DType dtype, ReduceOp op, Algorithm algorithm,
                         int world_size, int root, std::int64_t i);

}  // namespace shoal::tests

#endif  // SHOAL_TESTS_COMM_TEST_VECTOR_H_
