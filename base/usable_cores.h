// SPDX-License-Identifier: Apache-2.0
//
// How many cores this process may run on: those of the machine, or those that
// its affinity leaves. Thread-safe.

#ifndef SHOAL_BASE_USABLE_CORES_H_
#define SHOAL_BASE_USABLE_CORES_H_

#include <sched.h>
#include <unistd.h>

#include "shoal/base/dialect.h"

namespace shoal {

// At least 1, which is also the answer when the system gives none.
inline int UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) {
    // More than a cpu_set_t has room for, or nothing is known.
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? static_cast<int>(online) : 1;
  }
  return CPU_COUNT(&cores);
}

}  // namespace shoal

#endif  // SHOAL_BASE_USABLE_CORES_H_
