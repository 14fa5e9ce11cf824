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
void FoldWidened(const FoldOptions& options, Operands operands,
                 std::int64_t begin, std::int64_t count, char* out) {
  float sum[kBlock];
  float operand[kBlock];
  Widen<T>(operands[0] + begin * sizeof(T), count, sum);
  for (const char* const next : operands.subspan(1)) {
    Widen<T>(next + begin * sizeof(T), count, operand);
    Reduce(DType::kF32, options.op, sum, operand, sum, count);
  }
  if (options.completes) {
    FinishReduce(DType::kF32, options.op, sum, count, options.world_size);
  }
  Round<T>(sum, count, out + begin * sizeof(T));
}

void FoldAsTheyAre(const FoldOptions& options, Operands operands,
                   std::int64_t begin, std::int64_t count, char* out) {
  constexpr std::size_t kLargestElement = 8;
  alignas(16) char sum[kBlock * kLargestElement];
  const std::size_t size = DTypeSize(options.dtype);
  const std::size_t at = begin * size;
  const auto combine = [&](const char* first, const char* second, char* to) {
    if (options.op == ReduceOp::kUser) {
      (*options.user_reduction)(first, second, to, count);
    } else {
      Reduce(options.dtype, options.op, first, second, to, count);
    }
  };
  const char* first = operands[0] + at;
  // The last step writes to its place, which may be an operand's.
  for (std::size_t i = 1; i + 1 < operands.size(); ++i) {
    combine(first, operands[i] + at, sum);
    first = sum;
  }
  if (operands.size() > 1) {
    combine(first, operands.back() + at, out + at);
  } else if (out != operands[0]) {
    std::memcpy(out + at, first, count * size);
  }
  if (options.completes) {
    FinishReduce(options.dtype, options.op, out + at, count,
                 options.world_size);
  }
}

}  // namespace

void FoldReduce(const FoldOptions& options,
                absl::Span<const char* const> operands, char* out,
                std::int64_t count) {
  const bool as_they_are = options.op == ReduceOp::kUser;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t block = std::min(kBlock, count - begin);
    if (options.dtype == DType::kF16 && !as_they_are) {
      FoldWidened<Float16>(options, operands, begin, block, out);
    } else if (options.dtype == DType::kBF16 && !as_they_are) {
      FoldWidened<BFloat16>(options, operands, begin, block, out);
    } else {
      FoldAsTheyAre(options, operands, begin, block, out);
    }
  }
}

}  // namespace shoal::internal
