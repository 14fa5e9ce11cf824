// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_communicator.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/usable_cores.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/bootstrap.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine_communicator.h"
#include "shoal/comm/identity_communicator.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/tcp_group_factory.h"
#include "shoal/comm/tcp_job.h"
#include "shoal/comm/tcp_link.h"
#include "shoal/comm/tcp_point_to_point_links.h"
#include "shoal/comm/timeouts.h"

namespace shoal {
namespace {

using internal::JoinedWorld;

// One call, so that lines of several ranks do not mix.
void LogToStandardError(absl::string_view line) {
  const std::string text = absl::StrCat("shoal: ", line, "\n");
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// Whether each rank of this machine can have a core of its own.
bool HaveCoresToSpare(const JoinedWorld& world, int rank) {
  const auto here =
      std::count_if(world.peers.begin(), world.peers.end(),
                    [&](const internal::PeerInfo& peer) {
                      return peer.host_id == world.peers[rank].host_id;
                    });
  return here <= UsableCores();
}

absl::StatusOr<std::shared_ptr<internal::TcpJob>> MakeJob(
    const TcpOptions& options, JoinedWorld* world) {
  internal::TcpJobOptions job;
  job.rank = options.rank;
  job.world_size = options.world_size;
  job.job_id = options.job_id;
  job.session = world->session;
  for (int rank = 0; rank < options.world_size; ++rank) {
    job.rank_names.push_back(internal::RankName(rank, world->peers[rank]));
  }
  job.timeouts = options.timeouts;
  job.listener = std::move(world->listener);
  job.control = std::move(world->control);
  job.log = options.log;
  return internal::TcpJob::Create(std::move(job));
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(
    const TcpOptions& options, JoinedWorld world) {
  SHOAL_ASSIGN_OR_RETURN(internal::TcpLinkFactory links,
                         internal::TcpLinkFactory::Create());
  internal::TcpGroupFactoryOptions groups(std::move(links));
  groups.self = {options.job_id, world.session, options.rank,
                 options.world_size};
  std::vector<std::vector<std::string>> addresses;
  for (const internal::PeerInfo& peer : world.peers) {
    addresses.push_back(peer.addresses);
  }
  groups.addresses =
      std::make_shared<const std::vector<internal::PeerAddresses>>(
          internal::ResolvePeers(addresses));
  groups.slice_bytes = world.options.slice_bytes;
  groups.close_timeout = options.timeouts.close;
  groups.grace = options.timeouts.grace;
  groups.cores_to_spare = HaveCoresToSpare(world, options.rank);
  SHOAL_ASSIGN_OR_RETURN(groups.job, MakeJob(options, &world));
  const auto factory =
      std::make_shared<internal::TcpGroupFactory>(std::move(groups));
  internal::EngineCommunicatorOptions communicator;
  communicator.policy = world.options.policy;
  communicator.operation_timeout = options.timeouts.operation;
  communicator.groups = factory;
  SHOAL_ASSIGN_OR_RETURN(communicator.driver,
                         factory->MakeWorld(std::move(world.collective)));
  return internal::MakeEngineCommunicator(std::move(communicator));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> TcpCommunicator::Create(
    TcpOptions options) {
  if (options.log == nullptr) options.log = &LogToStandardError;
  SHOAL_RETURN_IF_ERROR(CheckPolicy(options.algorithm_policy));
  if (options.world_size == 1 && options.rank == 0) {
    SHOAL_RETURN_IF_ERROR(CheckTimeouts(options.timeouts));
    return std::make_unique<IdentityCommunicator>();
  }
  internal::BootstrapOptions bootstrap;
  bootstrap.rank = options.rank;
  bootstrap.world_size = options.world_size;
  bootstrap.address = options.address;
  bootstrap.listener = std::move(options.listener);
  bootstrap.job_id = options.job_id;
  bootstrap.advertise_host = options.advertise_host;
  bootstrap.timeouts = options.timeouts;
  bootstrap.options.policy = options.algorithm_policy;
  bootstrap.log = options.log;
  SHOAL_ASSIGN_OR_RETURN(JoinedWorld world,
                         internal::Bootstrap(std::move(bootstrap)));
  return MakeCommunicator(options, std::move(world));
}

}  // namespace shoal
