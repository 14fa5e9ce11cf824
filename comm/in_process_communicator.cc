// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/in_process_communicator.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine_communicator.h"
#include "shoal/comm/in_process_domain.h"
#include "shoal/comm/link.h"
#include "shoal/comm/memory_link.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/waker.h"

namespace shoal {
namespace {

using internal::Link;
using internal::PointToPointLinks;
using internal::Waker;

using IncomingLinks = std::vector<std::pair<int, std::unique_ptr<Link>>>;

// Where the senders of a world leave the far ends of the links that they open.
class Inbox {
 public:
  explicit Inbox(std::shared_ptr<Waker> waker) : waker_(std::move(waker)) {}

  void Put(int sender, std::unique_ptr<Link> link) {
    {
      MutexLock lock(&mutex_);
      // Dropped: the sender finds its link ended.
      if (closed_) return;
      links_.emplace_back(sender, std::move(link));
      filled_.store(true, std::memory_order_release);
    }
    waker_->Notify();
  }

  bool filled() const { return filled_.load(std::memory_order_acquire); }

  IncomingLinks Take() {
    MutexLock lock(&mutex_);
    filled_.store(false, std::memory_order_release);
    return std::exchange(links_, {});
  }

  // The receiver has left; it takes no more links.
  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
    links_.clear();
  }

  const std::shared_ptr<Waker>& waker() const { return waker_; }

 private:
  const std::shared_ptr<Waker> waker_;
  std::atomic<bool> filled_{false};
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  IncomingLinks links_ ABSL_GUARDED_BY(mutex_);
};

// A pair of links whose ends notify the ranks that own them.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeNotifyingPair(
    std::size_t capacity_bytes, const std::shared_ptr<Waker>& first,
    const std::shared_ptr<Waker>& second) {
  internal::MemoryLinkOptions options;
  options.capacity_bytes = capacity_bytes;
  auto [first_end, second_end] = internal::MakeMemoryLinkPair(options);
  first_end->SetWakeup([first] { first->Notify(); });
  second_end->SetWakeup([second] { second->Notify(); });
  return {std::move(first_end), std::move(second_end)};
}

class InProcessLinks final : public PointToPointLinks {
 public:
  InProcessLinks(int rank, std::size_t capacity_bytes,
                 std::vector<std::shared_ptr<Inbox>> inboxes)
      : rank_(rank),
        capacity_bytes_(capacity_bytes),
        inboxes_(std::move(inboxes)) {}
  ~InProcessLinks() override { inboxes_[rank_]->Close(); }

  // The inbox has had its waker from the beginning.
  void SetWaker(std::shared_ptr<Waker> /*waker*/) override {}

  absl::StatusOr<std::unique_ptr<Link>> OpenOutgoing(
      int peer, absl::Duration /*timeout*/) override {
    auto [here, there] = MakeNotifyingPair(
        capacity_bytes_, inboxes_[rank_]->waker(), inboxes_[peer]->waker());
    inboxes_[peer]->Put(rank_, std::move(there));
    return std::move(here);
  }

  bool HasIncoming() const override { return inboxes_[rank_]->filled(); }
  IncomingLinks TakeIncoming() override { return inboxes_[rank_]->Take(); }

 private:
  const int rank_;
  const std::size_t capacity_bytes_;
  const std::vector<std::shared_ptr<Inbox>> inboxes_;
};

absl::Status CheckOptions(int world_size, const InProcessOptions& options) {
  if (world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "InProcessCommunicator: world_size must be > 0, not ", world_size));
  }
  if (options.link_capacity_bytes == 0 || options.slice_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("InProcessCommunicator: link_capacity_bytes (",
                     options.link_capacity_bytes, ") and slice_bytes (",
                     options.slice_bytes, ") must be > 0"));
  }
  if (options.operation_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "InProcessCommunicator: operation_timeout must be more than zero, not ",
        absl::FormatDuration(options.operation_timeout)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>
InProcessCommunicator::CreateWorld(int world_size,
                                   const InProcessOptions& options) {
  SHOAL_RETURN_IF_ERROR(CheckOptions(world_size, options));
  std::vector<std::shared_ptr<Inbox>> inboxes;
  for (int rank = 0; rank < world_size; ++rank) {
    SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<Waker> waker, Waker::Create());
    inboxes.push_back(std::make_shared<Inbox>(std::move(waker)));
  }
  std::vector<std::vector<std::unique_ptr<Link>>> links(world_size);
  for (auto& row : links) row.resize(world_size);
  for (int low = 0; low < world_size; ++low) {
    for (int high = low + 1; high < world_size; ++high) {
      std::tie(links[low][high], links[high][low]) =
          MakeNotifyingPair(options.link_capacity_bytes, inboxes[low]->waker(),
                            inboxes[high]->waker());
    }
  }
  const auto domains = internal::MakeInProcessDomains(world_size);
  std::vector<std::unique_ptr<Communicator>> world;
  for (int rank = 0; rank < world_size; ++rank) {
    internal::EngineCommunicatorOptions rank_options;
    rank_options.rank = rank;
    rank_options.world_size = world_size;
    rank_options.links = std::move(links[rank]);
    rank_options.point_to_point_links = std::make_unique<InProcessLinks>(
        rank, options.link_capacity_bytes, inboxes);
    rank_options.domain = domains[rank];
    rank_options.waker = inboxes[rank]->waker();
    rank_options.policy = options.policy;
    rank_options.engine.slice_bytes = options.slice_bytes;
    rank_options.operation_timeout = options.operation_timeout;
    rank_options.cores_to_spare =
        world_size <= static_cast<int>(std::thread::hardware_concurrency());
    world.push_back(internal::MakeEngineCommunicator(std::move(rank_options)));
  }
  return world;
}

}  // namespace shoal
