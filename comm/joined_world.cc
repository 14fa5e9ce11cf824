// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/joined_world.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace shoal::internal {

std::string RankName(int rank, const PeerInfo& peer) {
  return absl::StrCat(
      "rank ", rank, " (",
      peer.addresses.empty() ? "unknown address" : peer.addresses[0], ", pid ",
      peer.pid, ")");
}

std::string HostId() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  if (boot_id.empty()) {
    char name[256] = {};
    if (gethostname(name, sizeof name - 1) == 0) boot_id = name;
  }
  // "net:[4026531840]". Containers of one machine have networks of their own.
  char network[64] = {};
  if (readlink("/proc/self/ns/net", network, sizeof network - 1) < 0) {
    network[0] = '\0';
  }
  return absl::StrCat(boot_id, "/", network);
}

}  // namespace shoal::internal
