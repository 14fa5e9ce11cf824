// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "absl/base/attributes.h"

namespace {

std::atomic<std::int64_t> allocations{0};

}  // namespace

// Not inlined, or g++ takes the pair of malloc and delete for a mistake.
ABSL_ATTRIBUTE_NOINLINE void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  std::abort();
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory) noexcept {
  std::free(memory);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory,
                                             std::size_t) noexcept {
  std::free(memory);
}

namespace shoal {

std::int64_t Allocations() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace shoal
