// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/link_inbox.h"

#include <atomic>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

LinkInbox::LinkInbox(std::set<int> collective_peers,
                     std::set<int> message_peers, std::shared_ptr<Waker> waker)
    : waker_(std::move(waker)) {
  box(LinkPurpose::kCollective).expected = std::move(collective_peers);
  box(LinkPurpose::kPointToPoint).expected = std::move(message_peers);
}

void LinkInbox::SetWaker(std::shared_ptr<Waker> waker) {
  MutexLock lock(&mutex_);
  waker_ = std::move(waker);
  for (const Box& box : boxes_) {
    if (!box.links.empty()) waker_->Notify();
  }
}

absl::Status LinkInbox::Put(LinkPurpose purpose, int peer,
                            absl::FunctionRef<GuardedDescriptor()> take) {
  MutexLock lock(&mutex_);
  Box& to = box(purpose);
  if (to.expected.erase(peer) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", peer,
                     " asks for a link that it should not ask for, or has "
                     "already"));
  }
  to.links.emplace_back(peer, take());
  to.filled.store(true, std::memory_order_release);
  if (waker_ != nullptr) waker_->Notify();
  return absl::OkStatus();
}

std::vector<std::pair<int, GuardedDescriptor>> LinkInbox::Take(
    LinkPurpose purpose) {
  MutexLock lock(&mutex_);
  box(purpose).filled.store(false, std::memory_order_release);
  return std::exchange(box(purpose).links, {});
}

}  // namespace shoal::internal
