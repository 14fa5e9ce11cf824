// SPDX-License-Identifier: Apache-2.0
//
// Keeps count of the calls of one communicator and, if it is asked to, what
// they were and when.
//
// Thread-safe.

#ifndef SHOAL_COMM_CALL_LOG_H_
#define SHOAL_COMM_CALL_LOG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/call.h"
#include "shoal/comm/comm_stats.h"
#include "shoal/comm/trace_event.h"

namespace shoal::internal {

// What is known of a call when it ends.
struct CallRecord {
  const Call* call = nullptr;
  std::uint64_t sequence = 0;
  std::int64_t bytes = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t waiting_ns = 0;
  bool succeeded = true;
};

class CallLog {
 public:
  // Allocates nothing, unless a trace is being taken or the kind is new.
  void Add(const CallRecord& record);

  CommStats stats() const;

  // From now on each call becomes an event, up to `max_events`; what comes
  // after those is counted only. Events of an earlier trace are dropped.
  void StartTrace(std::size_t max_events);

  // Ends the trace and hands over its events, in the order of their ends.
  std::vector<TraceEvent> TakeTrace();

 private:
  mutable Mutex mutex_;
  CommStats stats_ ABSL_GUARDED_BY(mutex_);
  std::size_t room_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<TraceEvent> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_CALL_LOG_H_
