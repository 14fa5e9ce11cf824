// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_communicator.h"

#include <sched.h>

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
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/bootstrap.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine_communicator.h"
#include "shoal/comm/identity_communicator.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/tcp_job.h"
#include "shoal/comm/tcp_link.h"
#include "shoal/comm/tcp_point_to_point_links.h"
#include "shoal/comm/timeouts.h"
#include "shoal/comm/waker.h"

namespace shoal {
namespace {

using internal::JoinedWorld;

// One call, so that lines of several ranks do not mix.
void LogToStandardError(absl::string_view line) {
  const std::string text = absl::StrCat("shoal: ", line, "\n");
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return CPU_COUNT(&cores);
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
  internal::EngineCommunicatorOptions engine;
  engine.rank = options.rank;
  engine.world_size = options.world_size;
  SHOAL_ASSIGN_OR_RETURN(engine.waker, internal::Waker::Create());
  SHOAL_ASSIGN_OR_RETURN(internal::TcpLinkFactory factory,
                         internal::TcpLinkFactory::Create());
  for (internal::GuardedDescriptor& socket : world.collective) {
    engine.links.emplace_back();
    if (!socket.valid()) continue;
    SHOAL_ASSIGN_OR_RETURN(engine.links.back(),
                           factory.Make(std::move(socket)));
  }
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<internal::TcpJob> job,
                         MakeJob(options, &world));
  std::vector<std::vector<std::string>> addresses;
  for (const internal::PeerInfo& peer : world.peers) {
    addresses.push_back(peer.addresses);
  }
  engine.point_to_point_links = internal::MakeTcpPointToPointLinks(
      {options.job_id, world.session, options.rank, options.world_size},
      std::move(addresses), job, std::move(factory));
  engine.domain = std::move(job);
  engine.policy = world.options.policy;
  engine.engine.slice_bytes = world.options.slice_bytes;
  engine.operation_timeout = options.timeouts.operation;
  engine.close_timeout = options.timeouts.close;
  engine.cores_to_spare = HaveCoresToSpare(world, options.rank);
  return internal::MakeEngineCommunicator(std::move(engine));
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
