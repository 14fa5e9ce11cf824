// SPDX-License-Identifier: Apache-2.0
//
// Joins the world that the environment, or the command line, describes.
//
//   SHOAL_RANK          this rank, from 0
//   SHOAL_WORLD_SIZE    the number of ranks; 1 needs nothing else
//   SHOAL_ADDRESS       rank 0's "host:port"
//   SHOAL_LISTEN_FD     rank 0 only: an inherited descriptor that listens there
//   SHOAL_JOB_ID        keeps jobs apart; may be absent
//   SHOAL_JOIN_TIMEOUT  "120s", "2m" or a number of seconds; may be absent
//   SHOAL_TIMEOUT       the same for each operation; may be absent
//   SHOAL_ALGO          rank 0's counts for all: an algorithm such as "ring",
//   for
//                       every collective that has it, or a list such as
//                       "allreduce:direct,broadcast:chain"; may be absent
//
// A tool that can join a world takes `--rank`, `--world_size` and `--address`
// as well (`TakeWorldFlags`); a flag wins over its variable.
//
// All functions are thread-safe as long as nobody changes the environment.

#ifndef SHOAL_COMM_ENVIRONMENT_H_
#define SHOAL_COMM_ENVIRONMENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/tcp_communicator.h"

namespace shoal {

// What the command line says of the world; each wins over its variable.
struct WorldOptions {
  std::optional<int> rank;
  std::optional<int> world_size;
  std::optional<std::string> address;

  // Whether any of them is given.
  bool any() const { return rank || world_size || address; }
};

// Removes `--rank`, `--world_size` and `--address`, as "--rank=2" or "--rank 2"
// (one or two dashes), from `arguments` and returns them. What follows "--" is
// left alone. `INVALID_ARGUMENT`, in one line, for a flag without a value, with
// one that is not a number, or given twice.
absl::StatusOr<WorldOptions> TakeWorldFlags(
    std::vector<std::string>* arguments);

struct EnvironmentOptions {
  WorldOptions world;

  // Looks up a variable; null stands for getenv.
  std::function<std::optional<std::string>(absl::string_view)> lookup;

  // What neither flags nor variables say (time-outs that are not the default,
  // log) is taken from here.
  TcpOptions defaults;
};

// Whether the environment or the flags describe a world at all: rank, world
// size or address is given.
bool HasWorld(const EnvironmentOptions& options = {});

// What `CommunicatorFromEnvironment` joins with. `INVALID_ARGUMENT`, in one
// line, names every variable that is missing, or the one that makes no sense
// and its value. An inherited descriptor is taken over.
absl::StatusOr<TcpOptions> TcpOptionsFromEnvironment(
    EnvironmentOptions options = {});

// Joins. A world of 1 rank needs no address; its communicator is the identity.
// Errors: those above, and those of `TcpCommunicator::Create`.
absl::StatusOr<std::unique_ptr<Communicator>> CommunicatorFromEnvironment(
    EnvironmentOptions options = {});

}  // namespace shoal

#endif  // SHOAL_COMM_ENVIRONMENT_H_
