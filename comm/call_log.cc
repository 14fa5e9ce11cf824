// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/call_log.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/call.h"
#include "shoal/comm/comm_stats.h"
#include "shoal/comm/trace_event.h"

namespace shoal::internal {

void CallLog::Add(const CallRecord& record) {
  const CallKind kind = record.call->signature.kind;
  MutexLock lock(&mutex_);
  OperationStats& stats = stats_.by_kind[kind];
  ++(record.succeeded ? stats.succeeded : stats.failed);
  stats.bytes += record.bytes;
  stats.elapsed += absl::Nanoseconds(record.end_ns - record.begin_ns);
  stats.waiting += absl::Nanoseconds(record.waiting_ns);
  if (room_ == 0) return;
  --room_;
  TraceEvent event;
  event.kind = kind;
  event.call = absl::StrCat(record.call->ToString(), " #", record.sequence);
  event.bytes = record.bytes;
  event.begin_ns = record.begin_ns;
  event.end_ns = record.end_ns;
  event.waiting_ns = record.waiting_ns;
  event.succeeded = record.succeeded;
  events_.push_back(std::move(event));
}

CommStats CallLog::stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

void CallLog::StartTrace(std::size_t max_events) {
  MutexLock lock(&mutex_);
  room_ = max_events;
  events_.clear();
}

std::vector<TraceEvent> CallLog::TakeTrace() {
  MutexLock lock(&mutex_);
  room_ = 0;
  return std::exchange(events_, {});
}

}  // namespace shoal::internal
