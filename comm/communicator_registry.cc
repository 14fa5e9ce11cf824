// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/communicator_registry.h"

#include <utility>

#include "shoal/base/mutex.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

void CommunicatorRegistry::Add(CommunicatorId id, const ReportSource* source,
                               Waker* waker) {
  MutexLock lock(&mutex_);
  members_[id] = {source, waker};
  if (notified_) waker->Notify();
}

bool CommunicatorRegistry::Remove(CommunicatorId id) {
  MutexLock lock(&mutex_);
  members_.erase(id);
  return members_.empty();
}

void CommunicatorRegistry::NotifyAll() {
  MutexLock lock(&mutex_);
  notified_ = true;
  for (const auto& [id, member] : members_) member.waker->Notify();
}

OperationReport CommunicatorRegistry::Report(CommunicatorId id) const {
  MutexLock lock(&mutex_);
  OperationReport report;
  report.communicator = id;
  if (const auto found = members_.find(id); found != members_.end()) {
    report = found->second.source->Report();
  }
  if (report.in_operation) return report;
  report.collective = false;
  for (const auto& [other_id, member] : members_) {
    if (other_id == id) continue;
    OperationReport other = member.source->Report();
    if (!other.in_operation) continue;
    report.in_operation = true;
    report.operation = std::move(other.operation);
    break;
  }
  return report;
}

}  // namespace shoal::internal
