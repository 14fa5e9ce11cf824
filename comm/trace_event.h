// SPDX-License-Identifier: Apache-2.0
//
// One call of a communicator as a trace shows it (trace.h).
//
// A value; not thread-safe.

#ifndef SHOAL_COMM_TRACE_EVENT_H_
#define SHOAL_COMM_TRACE_EVENT_H_

#include <cstdint>
#include <string>

#include "shoal/comm/call.h"

namespace shoal {

// Times are those of this rank's monotonic clock, in nanoseconds; trace.h
// brings the clocks of all ranks together.
struct TraceEvent {
  CallKind kind = CallKind::kBarrier;
  // "AllReduce(f32 x 100, sum, ring) #17".
  std::string call;
  std::int64_t bytes = 0;  // as OperationStats::bytes
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t waiting_ns = 0;  // as OperationStats::waiting
  bool succeeded = true;
};

}  // namespace shoal

#endif  // SHOAL_COMM_TRACE_EVENT_H_
