// SPDX-License-Identifier: Apache-2.0
//
// A communicator made of an engine, links and a failure domain: what the TCP
// and the in-process communicator have in common.
//
// A blocking call passes through no other thread: the calling thread drives the
// state machines (engine.h for collectives, point_to_point.h for messages)
// until its own operations are done, and between tries waits as
// wait_strategy.h says. Time-outs are kept here, because the machines know no
// clock; faults that the machines find are taken to the failure domain, which
// knows the reason or finds it out, and tells the other ranks.

#ifndef SHOAL_COMM_ENGINE_COMMUNICATOR_H_
#define SHOAL_COMM_ENGINE_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/link.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

struct EngineCommunicatorOptions {
  int rank = 0;
  int world_size = 1;
  // One link for each rank, null for this one.
  std::vector<std::unique_ptr<Link>> links;
  std::unique_ptr<PointToPointLinks> point_to_point_links;
  std::shared_ptr<FailureDomain> domain;
  // What the links and the domain notify; see waker.h.
  std::shared_ptr<Waker> waker;
  // Agreed among all ranks.
  AlgorithmPolicy policy;
  EngineOptions engine;
  absl::Duration operation_timeout;
  // How long the destructor waits for peers to take this rank's last bytes.
  absl::Duration close_timeout;
  // Every rank of this machine can have a core of its own.
  bool cores_to_spare = false;
};

std::unique_ptr<Communicator> MakeEngineCommunicator(
    EngineCommunicatorOptions options);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ENGINE_COMMUNICATOR_H_
