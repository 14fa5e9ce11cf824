// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_group_factory.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/engine_driver.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/group_factory.h"
#include "shoal/comm/link.h"
#include "shoal/comm/link_inbox.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_point_to_point_links.h"
#include "shoal/comm/tcp_socket.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

// How often a rank that waits for others looks whether the job has failed.
constexpr absl::Duration kFailureInterval = absl::Milliseconds(20);

// As for joining: an address that nobody answers leaves time for the others.
constexpr absl::Duration kAttemptTimeout = absl::Seconds(5);

}  // namespace

absl::StatusOr<EngineDriverOptions> TcpGroupFactory::MakeWorld(
    std::vector<GuardedDescriptor> sockets) {
  Group world;
  world.rank = options_.self.rank;
  world.job_ranks.resize(options_.self.world_size);
  std::iota(world.job_ranks.begin(), world.job_ranks.end(), 0);
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<Waker> waker, Waker::Create());
  std::vector<std::unique_ptr<Link>> links(world.job_ranks.size());
  for (std::size_t peer = 0; peer < links.size(); ++peer) {
    if (!sockets[peer].valid()) continue;
    SHOAL_ASSIGN_OR_RETURN(links[peer],
                           options_.links.Make(std::move(sockets[peer])));
  }
  return Assemble(world, std::move(links), options_.job->world_inbox(),
                  std::move(waker));
}

absl::StatusOr<EngineDriverOptions> TcpGroupFactory::Make(
    const Group& group, const std::string& operation, absl::Duration timeout,
    absl::Time deadline) {
  const int size = static_cast<int>(group.job_ranks.size());
  std::set<int> higher;
  std::set<int> others;
  for (int peer = 0; peer < size; ++peer) {
    if (peer > group.rank) higher.insert(group.job_ranks[peer]);
    if (peer != group.rank) others.insert(group.job_ranks[peer]);
  }
  absl::StatusOr<std::shared_ptr<Waker>> waker = Waker::Create();
  if (!waker.ok()) return FailHere(waker.status());
  const auto inbox = std::make_shared<LinkInbox>(higher, others, *waker);
  options_.job->OpenInbox(group.id, inbox);
  absl::Cleanup close_inbox = [&] { options_.job->CloseInbox(group.id); };
  const Task task = {group, operation, timeout, deadline};
  std::vector<std::unique_ptr<Link>> links(size);
  // Nobody waits before it has connected to all lower ranks.
  SHOAL_RETURN_IF_ERROR(DialLower(task, &links));
  SHOAL_RETURN_IF_ERROR(AwaitHigher(task, inbox.get(), waker->get(), &links));
  std::move(close_inbox).Cancel();
  return Assemble(group, std::move(links), inbox, *std::move(waker));
}

absl::Status TcpGroupFactory::DialLower(
    const Task& task, std::vector<std::unique_ptr<Link>>* links) const {
  TcpJob& job = *options_.job;
  for (int peer = 0; peer < task.group.rank; ++peer) {
    absl::StatusOr<GuardedDescriptor> socket =
        Dial(task.group, peer, task.deadline);
    if (absl::IsDeadlineExceeded(socket.status())) {
      return FailLate(task, {peer});
    }
    // What this rank lacks is not the peer's end.
    if (absl::IsResourceExhausted(socket.status())) {
      return FailHere(socket.status());
    }
    if (!socket.ok()) {
      return job.FailAfterLostLink(
          task.group.job_ranks[peer],
          absl::StrCat(task.operation, " (", socket.status().message(), ")"));
    }
    absl::StatusOr<std::unique_ptr<Link>> link =
        options_.links.Make(*std::move(socket));
    if (!link.ok()) return FailHere(link.status());
    (*links)[peer] = *std::move(link);
  }
  return absl::OkStatus();
}

absl::Status TcpGroupFactory::AwaitHigher(
    const Task& task, LinkInbox* inbox, Waker* waker,
    std::vector<std::unique_ptr<Link>>* links) const {
  const std::vector<int>& job_ranks = task.group.job_ranks;
  while (true) {
    for (auto& [job_rank, socket] : inbox->Take(LinkPurpose::kCollective)) {
      const auto peer =
          std::find(job_ranks.begin(), job_ranks.end(), job_rank) -
          job_ranks.begin();
      absl::StatusOr<std::unique_ptr<Link>> link =
          options_.links.Make(std::move(socket));
      if (!link.ok()) return FailHere(link.status());
      (*links)[peer] = *std::move(link);
    }
    std::vector<int> missing;
    for (std::size_t peer = task.group.rank + 1; peer < links->size(); ++peer) {
      if ((*links)[peer] == nullptr) missing.push_back(static_cast<int>(peer));
    }
    if (missing.empty()) return absl::OkStatus();
    if (options_.job->failed()) return options_.job->status();
    if (MonotonicNow() >= task.deadline) return FailLate(task, missing);
    AwaitLink(*inbox, waker, task.deadline);
  }
}

absl::Status TcpGroupFactory::FailHere(const absl::Status& error) const {
  options_.job->Fail(options_.self.rank, error);
  return options_.job->status();
}

absl::Status TcpGroupFactory::FailLate(const Task& task,
                                       const std::vector<int>& awaited) const {
  OperationReport report;
  report.communicator = task.group.id;
  report.members = task.group.job_ranks;
  report.in_operation = true;
  report.collective = false;
  report.operation = task.operation;
  for (const int peer : awaited) {
    report.awaiting.push_back(task.group.job_ranks[peer]);
  }
  return options_.job->FailAfterTimeout(report, task.timeout);
}

EngineDriverOptions TcpGroupFactory::Assemble(
    const Group& group, std::vector<std::unique_ptr<Link>> links,
    std::shared_ptr<LinkInbox> inbox, std::shared_ptr<Waker> waker) const {
  TcpPointToPointLinksOptions messages(options_.links);
  messages.self = options_.self;
  messages.communicator = group.id;
  messages.job_ranks = group.job_ranks;
  messages.addresses = options_.addresses;
  messages.job = options_.job;
  messages.inbox = std::move(inbox);
  EngineDriverOptions driver;
  driver.rank = group.rank;
  driver.world_size = static_cast<int>(group.job_ranks.size());
  driver.id = group.id;
  driver.job_ranks = group.job_ranks;
  driver.links = std::move(links);
  driver.point_to_point_links = MakeTcpPointToPointLinks(std::move(messages));
  driver.domain = options_.job;
  driver.waker = std::move(waker);
  driver.engine.slice_bytes = options_.slice_bytes;
  driver.close_timeout = options_.close_timeout;
  driver.late_link_grace = options_.grace;
  driver.cores_to_spare = options_.cores_to_spare;
  return driver;
}

absl::StatusOr<GuardedDescriptor> TcpGroupFactory::Dial(
    const Group& group, int peer, absl::Time deadline) const {
  const int to = group.job_ranks[peer];
  const PeerAddresses& addresses = (*options_.addresses)[to];
  SHOAL_RETURN_IF_ERROR(addresses.status());
  const std::string hello =
      EncodeLinkHello(options_.self, to, comm::LinkHello::COLLECTIVE, group.id);
  absl::Status error;
  for (const SocketAddress& address : *addresses) {
    const bool is_last = &address == &addresses->back();
    const absl::Time until =
        is_last ? deadline
                : std::min(deadline, MonotonicNow() + kAttemptTimeout);
    absl::StatusOr<GuardedDescriptor> socket = ConnectAndSend(
        address, hello, until, [this] { return options_.job->failed(); });
    if (socket.ok()) return socket;
    error = socket.status();
    if (absl::IsCancelled(error)) break;
  }
  return error;
}

void TcpGroupFactory::AwaitLink(const LinkInbox& inbox, Waker* waker,
                                absl::Time deadline) const {
  waker->PrepareToPark();
  if (!inbox.Has(LinkPurpose::kCollective)) {
    pollfd entry = {waker->descriptor(), POLLIN, 0};
    const absl::Duration wait = std::clamp(
        deadline - MonotonicNow(), absl::ZeroDuration(), kFailureInterval);
    poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1);
  }
  waker->Unpark();
}

}  // namespace shoal::internal
