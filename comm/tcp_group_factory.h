// SPDX-License-Identifier: Apache-2.0
//
// The groups (group_factory.h) of a world that joined over TCP.
//
// Every pair of ranks of a group gets a connection of its own for collectives:
// the higher rank of the group connects to the lower one's listener, says which
// communicator it is for, and may send at once. Nothing is answered; that all
// links stand is shown by the barrier with which `Split` ends.

#ifndef SHOAL_COMM_TCP_GROUP_FACTORY_H_
#define SHOAL_COMM_TCP_GROUP_FACTORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/engine_driver.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/group_factory.h"
#include "shoal/comm/link.h"
#include "shoal/comm/link_inbox.h"
#include "shoal/comm/tcp_job.h"
#include "shoal/comm/tcp_link.h"
#include "shoal/comm/tcp_point_to_point_links.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

struct TcpGroupFactoryOptions {
  explicit TcpGroupFactoryOptions(TcpLinkFactory links)
      : links(std::move(links)) {}

  LinkExpectation self;
  // By rank of the job.
  std::shared_ptr<const std::vector<PeerAddresses>> addresses;
  std::shared_ptr<TcpJob> job;
  TcpLinkFactory links;
  std::size_t slice_bytes = 0;
  absl::Duration close_timeout;
  absl::Duration grace;
  bool cores_to_spare = false;
};

class TcpGroupFactory final : public GroupFactory {
 public:
  explicit TcpGroupFactory(TcpGroupFactoryOptions options)
      : options_(std::move(options)) {}

  // The end of the world, whose links stand already; `sockets` by rank, invalid
  // for this one.
  absl::StatusOr<EngineDriverOptions> MakeWorld(
      std::vector<GuardedDescriptor> sockets);

  std::uint32_t NextNumber() override { return ++number_; }
  absl::StatusOr<EngineDriverOptions> Make(const Group& group,
                                           const std::string& operation,
                                           absl::Duration timeout,
                                           absl::Time deadline) override;

 private:
  // A group that is being made.
  struct Task {
    const Group& group;
    const std::string& operation;
    absl::Duration timeout;
    absl::Time deadline;
  };

  // These two open the links by rank of the group; an error is the job's.
  absl::Status DialLower(const Task& task,
                         std::vector<std::unique_ptr<Link>>* links) const;
  absl::Status AwaitHigher(const Task& task, LinkInbox* inbox, Waker* waker,
                           std::vector<std::unique_ptr<Link>>* links) const;
  // Fail the job, and return its error. `awaited` are ranks of the group.
  absl::Status FailHere(const absl::Status& error) const;
  absl::Status FailLate(const Task& task,
                        const std::vector<int>& awaited) const;
  EngineDriverOptions Assemble(const Group& group,
                               std::vector<std::unique_ptr<Link>> links,
                               std::shared_ptr<LinkInbox> inbox,
                               std::shared_ptr<Waker> waker) const;
  absl::StatusOr<GuardedDescriptor> Dial(const Group& group, int peer,
                                         absl::Time deadline) const;
  // Waits until something may have come.
  void AwaitLink(const LinkInbox& inbox, Waker* waker,
                 absl::Time deadline) const;

  const TcpGroupFactoryOptions options_;
  std::atomic<std::uint32_t> number_{0};
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_GROUP_FACTORY_H_
