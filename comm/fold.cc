// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/fold.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::internal {
namespace {

// Elements that are folded at a time: the sums stay in the first cache.
constexpr std::int64_t kBlock = 1024;

using Operands = absl::Span<const char* const>;

template <typename T>
void Widen(const char* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<float>(element);
  }
}

template <typename T>
void Round(const float* from, std::int64_t count, char* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T element(from[i]);
    std::memcpy(to + i * sizeof(T), &element, sizeof(T));
  }
}

template <typename T>
void FoldWidened(ReduceOp op, Operands operands, std::int64_t begin,
                 std::int64_t count, bool completes, int world_size,
                 char* out) {
  float sum[kBlock];
  float operand[kBlock];
  Widen<T>(operands[0] + begin * sizeof(T), count, sum);
  for (const char* const next : operands.subspan(1)) {
    Widen<T>(next + begin * sizeof(T), count, operand);
    Reduce(DType::kF32, op, sum, operand, sum, count);
  }
  if (completes) FinishReduce(DType::kF32, op, sum, count, world_size);
  Round<T>(sum, count, out + begin * sizeof(T));
}

void FoldAsTheyAre(DType dtype, ReduceOp op, Operands operands,
                   std::int64_t begin, std::int64_t count, bool completes,
                   int world_size, char* out) {
  constexpr std::size_t kLargestElement = 8;
  char sum[kBlock * kLargestElement];
  const std::size_t size = DTypeSize(dtype);
  const std::size_t at = begin * size;
  const char* first = operands[0] + at;
  // The last step writes to its place, which may be an operand's.
  for (std::size_t i = 1; i + 1 < operands.size(); ++i) {
    Reduce(dtype, op, first, operands[i] + at, sum, count);
    first = sum;
  }
  if (operands.size() > 1) {
    Reduce(dtype, op, first, operands.back() + at, out + at, count);
  } else if (out != operands[0]) {
    std::memcpy(out + at, first, count * size);
  }
  if (completes) FinishReduce(dtype, op, out + at, count, world_size);
}

}  // namespace

void FoldReduce(DType dtype, ReduceOp op,
                absl::Span<const char* const> operands, bool completes,
                int world_size, char* out, std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t block = std::min(kBlock, count - begin);
    if (dtype == DType::kF16) {
      FoldWidened<Float16>(op, operands, begin, block, completes, world_size,
                           out);
    } else if (dtype == DType::kBF16) {
      FoldWidened<BFloat16>(op, operands, begin, block, completes, world_size,
                            out);
    } else {
      FoldAsTheyAre(dtype, op, operands, begin, block, completes, world_size,
                    out);
    }
  }
}

}  // namespace shoal::internal
