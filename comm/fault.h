// SPDX-License-Identifier: Apache-2.0
//
// What the state machines that move messages over links (engine.h,
// point_to_point.h) tell their driver: what went wrong, and on which links they
// wait.
//
// Values; thread-safe.

#ifndef SHOAL_COMM_FAULT_H_
#define SHOAL_COMM_FAULT_H_

#include <utility>

#include "absl/status/status.h"
#include "shoal/comm/link.h"

namespace shoal::internal {

// The first thing that went wrong. The machine has stopped by itself; its
// driver tells the other ranks and calls the machine's `Fail`.
struct EngineFault {
  enum class Kind {
    kNone,
    kPeerLost,  // a link ended that an operation needs; only a hint: the reason
                // comes from elsewhere
    kMismatch,  // the peer's call does not fit this rank's own
    kCorrupt,   // what the peer sent cannot be a message of its protocol
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

// A link that has to become ready before anything can go on.
struct LinkInterest {
  Link* link = nullptr;
  int peer = -1;
  bool read = false;
  bool write = false;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FAULT_H_
