// SPDX-License-Identifier: Apache-2.0
//
// The communicators that one rank has in one job: whom to wake when the job
// fails, and what the rank is doing, when others ask.
//
// Thread-safe. A report source is asked under the registry's lock, so that
// nothing of a communicator is used once `Remove` has returned.

#ifndef SHOAL_COMM_COMMUNICATOR_REGISTRY_H_
#define SHOAL_COMM_COMMUNICATOR_REGISTRY_H_

#include <map>

#include "absl/base/thread_annotations.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

class CommunicatorRegistry {
 public:
  // Notifies at once if `NotifyAll` was called before.
  void Add(CommunicatorId id, const ReportSource* source, Waker* waker);

  // True if it was the last one.
  bool Remove(CommunicatorId id);

  // Wakes all communicators, and each that comes later.
  void NotifyAll();

  // What the rank is doing in communicator `id`, or if that is nothing, in
  // another; `kAnyCommunicator`: in any.
  OperationReport Report(CommunicatorId id) const;

 private:
  struct Member {
    const ReportSource* source;
    Waker* waker;
  };

  mutable Mutex mutex_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<CommunicatorId, Member> members_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_COMMUNICATOR_REGISTRY_H_
