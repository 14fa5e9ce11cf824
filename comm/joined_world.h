// SPDX-License-Identifier: Apache-2.0
//
// What a rank brings along when a world is formed, and what it gets.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_JOINED_WORLD_H_
#define SHOAL_COMM_JOINED_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/usable_cores.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/tcp_listener.h"
#include "shoal/comm/timeouts.h"

namespace shoal::internal {

// What rank 0 decides for all.
struct AgreedOptions {
  std::size_t slice_bytes = 128 * 1024;
  AlgorithmPolicy policy;
};

struct BootstrapOptions {
  int rank = 0;
  int world_size = 2;  // at least 2
  std::string address;
  std::optional<TcpListener> listener;
  std::string job_id;
  std::string advertise_host;
  // Of this machine; empty: HostId().
  std::string host_id;
  // Of this machine, for this process.
  int usable_cores = UsableCores();
  Timeouts timeouts;
  AgreedOptions options;  // rank 0's count
  absl::Duration hello_timeout = kHelloTimeout;
  std::function<void(absl::string_view)> log;  // not empty
  // Gets the name of each state (docs/wire.md) that is entered, and "retrying"
  // when rank 0 could not be reached; for tests. May be empty.
  std::function<void(absl::string_view)> on_state;
};

struct PeerInfo {
  std::vector<std::string> addresses;
  std::string host_id;
  std::uint32_t pid = 0;
};

struct JoinedWorld {
  std::uint64_t session = 0;
  std::vector<PeerInfo> peers;  // by rank, this one included
  AgreedOptions options;
  // Where the others' later connections arrive.
  GuardedDescriptor listener;
  // By rank; invalid for this one.
  std::vector<GuardedDescriptor> control;
  std::vector<GuardedDescriptor> collective;
};

// "rank 2 (10.0.0.7:40123, pid 4711)": how messages name a rank.
std::string RankName(int rank, const PeerInfo& peer);

// Equal for processes that share a machine and its network interfaces, so that
// its loopback addresses lead from one to the other.
std::string HostId();

}  // namespace shoal::internal

#endif  // SHOAL_COMM_JOINED_WORLD_H_
