// SPDX-License-Identifier: Apache-2.0
//
// A picture of who did what when: the calls of all ranks on one time line, as
// JSON that chrome://tracing and https://ui.perfetto.dev open.
//
//   communicator->StartTrace();
//   ... the calls to look at ...
//   absl::StatusOr<std::string> json = GatherTrace(communicator);
//   // On rank 0: write *json to a file. On the others it is empty.
//
// Each rank is a process in the picture, each call a bar with its text, bytes
// and waiting time. Clocks of different machines are brought together by an
// exchange of messages with rank 0: to about half of the shortest round trip.

#ifndef SHOAL_COMM_TRACE_H_
#define SHOAL_COMM_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/trace_event.h"

namespace shoal {

// Ends the trace of every rank and collects it on rank 0, which gets the
// document; the others get an empty string. A collective: all ranks call it,
// with no other operation under way. It uses messages with the highest tags.
// Errors: those of the communicator's messages; `DATA_LOSS` if a rank sends
// something else than its events.
absl::StatusOr<std::string> GatherTrace(Communicator* communicator);

namespace internal {

struct RankTrace {
  std::vector<TraceEvent> events;
  // What to add to this rank's times to get rank 0's.
  std::int64_t offset_ns = 0;
};

// `traces[r]` is rank r's. Times begin with the earliest event.
std::string TraceToJson(absl::Span<const RankTrace> traces);

}  // namespace internal
}  // namespace shoal

#endif  // SHOAL_COMM_TRACE_H_
