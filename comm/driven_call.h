// SPDX-License-Identifier: Apache-2.0
//
// A call on its way from the user of a communicator through its driver
// (engine_driver.h) and the state machines (active_calls.h).
//
// Lifetime: the memory is the owner's, who keeps it until `done` is true.
// Threads: each member says whose it is.

#ifndef SHOAL_COMM_DRIVEN_CALL_H_
#define SHOAL_COMM_DRIVEN_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/wait_strategy.h"

namespace shoal::internal {

struct DrivenCall {
  using Clock = WaitStrategy::Clock;

  struct Part {
    Call call;  // with the algorithm that was chosen
    // Of a collective; null for a Send or a Recv.
    std::shared_ptr<const Schedule> schedule;
    // Set by the driver. Collectives have the same number on all ranks;
    // messages are counted by each rank for itself.
    std::uint64_t sequence = 0;
    std::uint64_t id = 0;  // in its machine

    bool is_message() const { return schedule == nullptr; }

    // "AllReduce(f32 x 100, sum, ring) #17 in communicator 0/3 (...)". The same
    // text on all ranks whose calls match, for reports are compared by it: so
    // without the counts of AllToAllV, which are each rank's own.
    std::string Describe(absl::string_view communicator) const {
      const CallSignature& signature = call.signature;
      return absl::StrCat(signature.kind == CallKind::kAllToAllV
                              ? signature.ToString()
                              : call.ToString(),
                          " #", sequence, communicator);
    }
  };

  // By the owner, before: one, or several that proceed side by side.
  absl::InlinedVector<Part, 2> parts;
  absl::Duration timeout;

  // By the driver. The deadline is set at the start of a started call, and at
  // the first try in vain of a blocking one.
  Clock::time_point deadline{};
  bool settled = false;
  bool succeeded = true;  // once it is settled
  // For the log: when it was made, and how long the thread that drove for it
  // had nothing to move.
  Clock::time_point begin{};
  Clock::duration waiting{};

  // OK, or the job's error. May be read once `done` is true.
  absl::Status result;
  std::atomic<bool> done{false};
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_DRIVEN_CALL_H_
