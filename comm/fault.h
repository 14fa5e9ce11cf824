// SPDX-License-Identifier: Apache-2.0
//
// What the state machines that move messages over links (engine.h,
// point_to_point.h) tell their driver: what went wrong, and on which links they
// wait.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_FAULT_H_
#define SHOAL_COMM_FAULT_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/link.h"

namespace shoal::internal {

// The first thing that went wrong. The machine has stopped by itself; its
// driver tells the other ranks and calls the machine's `Fail`.
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
    // This rank cannot run its own operation, `peer` being itself:
    // `RESOURCE_EXHAUSTED` without memory for it, or `INTERNAL`.
    kUnable,
  };
  Kind kind = Kind::kNone;
  int peer = -1;
  absl::Status status;  // not OK unless kNone

  bool ok() const { return kind == Kind::kNone; }

  // Keeps what is there already.
  void Raise(Kind new_kind, int culprit, absl::Status why) {
    if (!ok()) return;
    kind = new_kind;
    peer = culprit;
    status = std::move(why);
  }
};

// The link of `rank` to `peer` ended while `call` ("AllReduce(...) #7") still
// needed it. `reason` is in the operating system's words, or empty.
EngineFault PeerLost(int rank, int peer, const std::string& call,
                     const std::string& reason);

// A link that has to become ready before anything can go on.
struct LinkInterest {
  Link* link = nullptr;
  int peer = -1;
  bool read = false;
  bool write = false;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FAULT_H_
