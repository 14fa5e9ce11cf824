// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/bootstrap.h"

#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/bootstrap_host.h"
#include "shoal/comm/bootstrap_member.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/timeouts.h"

namespace shoal::internal {
namespace {

constexpr int kMaxWorldSize = 1 << 16;

absl::Status CheckOptions(const BootstrapOptions& options) {
  if (options.world_size < 1 || options.world_size > kMaxWorldSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("world size ", options.world_size, " is not in 1..",
                     kMaxWorldSize));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", options.rank, " is not in a world of ", options.world_size,
        options.world_size == 1 ? " rank" : " ranks"));
  }
  if (options.world_size == 1) {
    return absl::InvalidArgumentError("a world of 1 rank has nobody to join");
  }
  if (options.job_id.size() > 256) {
    return absl::InvalidArgumentError(
        "the job id is longer than 256 characters");
  }
  if (options.rank != 0 && options.listener.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", options.rank, " was given a listener; only rank 0 takes one"));
  }
  if (options.address.empty() && !options.listener.has_value()) {
    return absl::InvalidArgumentError(
        "rank 0's address is missing; give all ranks the same host:port");
  }
  return CheckTimeouts(options.timeouts);
}

}  // namespace

absl::StatusOr<JoinedWorld> Bootstrap(BootstrapOptions options) {
  SHOAL_RETURN_IF_ERROR(CheckOptions(options));
  if (options.host_id.empty()) options.host_id = HostId();
  try {
    return options.rank == 0 ? BootstrapAsHost(std::move(options))
                             : BootstrapAsMember(std::move(options));
  } catch (const std::exception& error) {
    // Asio's loop throws when it can get no descriptors of its own.
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot join the world: ", error.what()));
  }
}

}  // namespace shoal::internal
