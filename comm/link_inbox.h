// SPDX-License-Identifier: Apache-2.0
//
// Where the links arrive that peers open to one communicator: those for
// messages whenever a peer first sends, those for collectives while the
// communicator is being made.
//
// Each peer may open one link of each purpose. The service thread puts sockets
// in, the communicator's thread takes them out and is woken for them.
//
// Ranks are the job's. Thread-safe.

#ifndef SHOAL_COMM_LINK_INBOX_H_
#define SHOAL_COMM_LINK_INBOX_H_

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

enum class LinkPurpose { kCollective, kPointToPoint };

class LinkInbox {
 public:
  // The ranks that open a link of each kind. `waker` may be null at first.
  LinkInbox(std::set<int> collective_peers, std::set<int> message_peers,
            std::shared_ptr<Waker> waker);

  // Notified when a link arrives; at once, if there is one.
  void SetWaker(std::shared_ptr<Waker> waker);

  // `FAILED_PRECONDITION`, and `take` is not called, unless the peer is to open
  // such a link and has not yet.
  absl::Status Put(LinkPurpose purpose, int peer,
                   absl::FunctionRef<GuardedDescriptor()> take);

  // True when `Take` would return something. One atomic load.
  bool Has(LinkPurpose purpose) const {
    return box(purpose).filled.load(std::memory_order_acquire);
  }
  std::vector<std::pair<int, GuardedDescriptor>> Take(LinkPurpose purpose);

 private:
  struct Box {
    std::set<int> expected;
    std::atomic<bool> filled{false};
    std::vector<std::pair<int, GuardedDescriptor>> links;
  };

  Box& box(LinkPurpose purpose) { return boxes_[static_cast<int>(purpose)]; }
  const Box& box(LinkPurpose purpose) const {
    return boxes_[static_cast<int>(purpose)];
  }

  Mutex mutex_;
  std::shared_ptr<Waker> waker_ ABSL_GUARDED_BY(mutex_);
  // `expected` and `links` under the lock.
  std::array<Box, 2> boxes_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_LINK_INBOX_H_
