// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/fault.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal::internal {

EngineFault PeerLost(int rank, int peer, const std::string& call,
                     const std::string& reason) {
  return {EngineFault::Kind::kPeerLost, peer,
          absl::UnavailableError(absl::StrCat(
              "rank ", peer, " ended its connection to rank ", rank,
              " in the middle of ", call, reason.empty() ? "" : " (", reason,
              reason.empty() ? "" : ")",
              "; see what that rank reports, and start the job again"))};
}

}  // namespace shoal::internal
