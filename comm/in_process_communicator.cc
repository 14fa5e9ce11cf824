// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/in_process_communicator.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
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
#include "shoal/base/usable_cores.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine_communicator.h"
#include "shoal/comm/engine_driver.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/group_factory.h"
#include "shoal/comm/in_process_domain.h"
#include "shoal/comm/link.h"
#include "shoal/comm/memory_link.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/waker.h"

namespace shoal {
namespace {

using internal::CommunicatorId;
using internal::EngineDriverOptions;
using internal::Group;
using internal::GroupFactory;
using internal::Link;
using internal::LinkOpening;
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

// One that is there at once.
class OpenLink final : public LinkOpening {
 public:
  explicit OpenLink(std::unique_ptr<Link> link) : link_(std::move(link)) {}

  absl::StatusOr<std::unique_ptr<Link>> TryFinish() override {
    return std::move(link_);
  }
  int descriptor() const override { return -1; }

 private:
  std::unique_ptr<Link> link_;
};

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

  std::unique_ptr<LinkOpening> OpenOutgoing(int peer) override {
    auto [here, there] = MakeNotifyingPair(
        capacity_bytes_, inboxes_[rank_]->waker(), inboxes_[peer]->waker());
    inboxes_[peer]->Put(rank_, std::move(there));
    return std::make_unique<OpenLink>(std::move(here));
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

// All the ranks' ends of all communicators of a world.
class InProcessGroups final : public GroupFactory {
 public:
  InProcessGroups(int world_size, const InProcessOptions& options)
      : options_(options),
        domains_(internal::MakeInProcessDomains(world_size)),
        cores_to_spare_(world_size <= UsableCores()) {}

  std::uint32_t NextNumber() override { return ++number_; }

  // The first rank to come makes the ends of all, and nobody waits.
  absl::StatusOr<EngineDriverOptions> Make(const Group& group,
                                           const std::string& /*operation*/,
                                           absl::Duration /*timeout*/,
                                           absl::Time /*deadline*/) override {
    const std::pair<CommunicatorId, int> key = {group.id, group.job_ranks[0]};
    MutexLock lock(&mutex_);
    Ends& ends = unclaimed_[key];
    if (ends.left == 0) {
      absl::StatusOr<std::vector<EngineDriverOptions>> made =
          MakeEnds(group.id, group.job_ranks);
      if (!made.ok()) {
        unclaimed_.erase(key);
        domains_[group.job_ranks[group.rank]]->Fail(group.rank, made.status());
        return made.status();
      }
      ends.options = *std::move(made);
      ends.left = group.job_ranks.size();
    }
    EngineDriverOptions end = std::move(ends.options[group.rank]);
    if (--ends.left == 0) unclaimed_.erase(key);
    return end;
  }

  // The ends of a communicator of these ranks of the world.
  absl::StatusOr<std::vector<EngineDriverOptions>> MakeEnds(
      CommunicatorId id, const std::vector<int>& job_ranks) const;

 private:
  struct Ends {
    std::vector<EngineDriverOptions> options;
    std::size_t left = 0;  // that nobody has taken yet
  };

  const InProcessOptions options_;
  const std::vector<std::shared_ptr<internal::FailureDomain>> domains_;
  const bool cores_to_spare_;
  std::atomic<std::uint32_t> number_{0};
  Mutex mutex_;
  // Groups of one split have the same id and no rank in common.
  std::map<std::pair<CommunicatorId, int>, Ends> unclaimed_
      ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::vector<EngineDriverOptions>> InProcessGroups::MakeEnds(
    CommunicatorId id, const std::vector<int>& job_ranks) const {
  const int size = static_cast<int>(job_ranks.size());
  std::vector<std::shared_ptr<Inbox>> inboxes;
  for (int rank = 0; rank < size; ++rank) {
    SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<Waker> waker, Waker::Create());
    inboxes.push_back(std::make_shared<Inbox>(std::move(waker)));
  }
  std::vector<EngineDriverOptions> ends(size);
  for (EngineDriverOptions& end : ends) end.links.resize(size);
  for (int low = 0; low < size; ++low) {
    for (int high = low + 1; high < size; ++high) {
      std::tie(ends[low].links[high], ends[high].links[low]) =
          MakeNotifyingPair(options_.link_capacity_bytes, inboxes[low]->waker(),
                            inboxes[high]->waker());
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    EngineDriverOptions& end = ends[rank];
    end.rank = rank;
    end.world_size = size;
    end.id = id;
    end.job_ranks = job_ranks;
    end.point_to_point_links = std::make_unique<InProcessLinks>(
        rank, options_.link_capacity_bytes, inboxes);
    end.domain = domains_[job_ranks[rank]];
    end.waker = inboxes[rank]->waker();
    end.engine.slice_bytes = options_.slice_bytes;
    end.cores_to_spare = cores_to_spare_;
  }
  return ends;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>
InProcessCommunicator::CreateWorld(int world_size,
                                   const InProcessOptions& options) {
  SHOAL_RETURN_IF_ERROR(CheckOptions(world_size, options));
  const auto groups = std::make_shared<InProcessGroups>(world_size, options);
  std::vector<int> ranks(world_size);
  std::iota(ranks.begin(), ranks.end(), 0);
  SHOAL_ASSIGN_OR_RETURN(std::vector<EngineDriverOptions> ends,
                         groups->MakeEnds(internal::kWorldId, ranks));
  AlgorithmPolicy policy = options.policy;
  SettleRules(world_size > UsableCores(), &policy);
  std::vector<std::unique_ptr<Communicator>> world;
  for (EngineDriverOptions& end : ends) {
    internal::EngineCommunicatorOptions communicator;
    communicator.driver = std::move(end);
    communicator.groups = groups;
    communicator.policy = policy;
    communicator.operation_timeout = options.operation_timeout;
    world.push_back(internal::MakeEngineCommunicator(std::move(communicator)));
  }
  return world;
}

}  // namespace shoal
