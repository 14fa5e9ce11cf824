// SPDX-License-Identifier: Apache-2.0
//
// What a communicator has done so far, by kind of call.
//
// Values; not thread-safe.

#ifndef SHOAL_COMM_COMM_STATS_H_
#define SHOAL_COMM_COMM_STATS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "shoal/comm/call.h"

namespace shoal {

struct OperationStats {
  std::int64_t succeeded = 0;
  std::int64_t failed = 0;
  // The data of the calls on this rank: of each the larger one of its two
  // buffers. What goes over the links for it depends on the algorithm.
  std::int64_t bytes = 0;
  // From the calls to their ends. Started operations overlap with others, so
  // that this may exceed the time that has passed.
  absl::Duration elapsed;
  // The part of it in which the thread that drove for this call had nothing to
  // move: the others, or the network, had not come so far. Waits while another
  // thread drove are not in it.
  absl::Duration waiting;

  // The rest, which is mostly moving bytes and reducing them.
  absl::Duration moving() const { return elapsed - waiting; }

  OperationStats& operator+=(const OperationStats& other);
};

struct CommStats {
  // Kinds that were never called are not in it.
  std::map<CallKind, OperationStats> by_kind;

  OperationStats Total() const;

  // For people: a table with a line for each kind.
  std::string ToString() const;
};

}  // namespace shoal

#endif  // SHOAL_COMM_COMM_STATS_H_
