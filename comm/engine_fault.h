// SPDX-License-Identifier: Apache-2.0
//
// What an engine finds out by itself to have gone wrong.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_ENGINE_FAULT_H_
#define SHOAL_COMM_ENGINE_FAULT_H_

#include <string>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

struct EngineFault {
  enum class Kind {
    kNone,
    // A link ended that an operation still needs: `UNAVAILABLE`. Only a hint:
    // the peer may have fallen over the end of another.
    kPeerLost,
    // The peer made another call, or the same one at another place in the
    // order: `FAILED_PRECONDITION`, with both calls.
    kMismatch,
    // What the peer sent is no message, or none that its call has: `DATA_LOSS`.
    kCorrupt,
  };
  Kind kind = Kind::kNone;
  int peer = -1;
  absl::Status status;  // not OK unless kNone
};

// The link of `rank` to `peer` ended while `call` ("AllReduce(...) #7") still
// needed it. `reason` is in the operating system's words, or empty.
EngineFault PeerLost(int rank, int peer, const std::string& call,
                     const std::string& reason);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ENGINE_FAULT_H_
