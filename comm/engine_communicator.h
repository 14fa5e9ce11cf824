// SPDX-License-Identifier: Apache-2.0
//
// A communicator made of an engine, links and a failure domain: what the TCP
// and the in-process communicator have in common.
//
// It turns calls into schedules and hands them to its driver (engine_driver.h),
// which runs them. A blocking call passes through no other thread.

#ifndef SHOAL_COMM_ENGINE_COMMUNICATOR_H_
#define SHOAL_COMM_ENGINE_COMMUNICATOR_H_

#include <memory>

#include "absl/time/time.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/engine_driver.h"
#include "shoal/comm/group_factory.h"

namespace shoal::internal {

struct EngineCommunicatorOptions {
  EngineDriverOptions driver;
  // For `Split`; all communicators of a rank share it.
  std::shared_ptr<GroupFactory> groups;
  // Agreed among all ranks.
  AlgorithmPolicy policy;
  absl::Duration operation_timeout;
};

std::unique_ptr<Communicator> MakeEngineCommunicator(
    EngineCommunicatorOptions options);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ENGINE_COMMUNICATOR_H_
