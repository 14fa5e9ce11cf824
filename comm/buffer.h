// SPDX-License-Identifier: Apache-2.0
//
// The memory of a call: where it lies, how many elements, and of which type.
//
// The memory is the caller's and has to stay valid until the call completes;
// any alignment will do. Values; thread-safe.

#ifndef SHOAL_COMM_BUFFER_H_
#define SHOAL_COMM_BUFFER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/dtype.h"

namespace shoal {

// Memory that a call reads. `data` may be null when `count` is 0.
struct ConstBuffer {
  const void* data = nullptr;
  std::int64_t count = 0;  // elements
  DType dtype = DType::kU8;
};

// Memory that a call writes.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;  // elements
  DType dtype = DType::kU8;

  operator ConstBuffer() const { return {data, count, dtype}; }
};

// The buffer that is the elements of `span`.
template <typename T>
Buffer BufferOf(absl::Span<T> span) {
  return {span.data(), static_cast<std::int64_t>(span.size()), DTypeOf<T>()};
}
template <typename T>
ConstBuffer BufferOf(absl::Span<const T> span) {
  return {span.data(), static_cast<std::int64_t>(span.size()), DTypeOf<T>()};
}

}  // namespace shoal

#endif  // SHOAL_COMM_BUFFER_H_
