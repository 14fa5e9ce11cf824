// SPDX-License-Identifier: Apache-2.0
//
// Counts what `operator new` hands out, in a program that is linked with this:
// for tests that something allocates nothing.
//
// Thread-safe.

#ifndef SHOAL_BASE_ALLOCATION_COUNTER_H_
#define SHOAL_BASE_ALLOCATION_COUNTER_H_

#include <cstdint>

#include "shoal/base/dialect.h"

namespace shoal {

// Since the program began, by all threads.
std::int64_t Allocations();

}  // namespace shoal

#endif  // SHOAL_BASE_ALLOCATION_COUNTER_H_
