// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/trace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/json_writer.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/trace.pb.h"
#include "shoal/comm/trace_event.h"

namespace shoal {
namespace {

using internal::RankTrace;

// Out of the way of the tags that programs number from 0.
constexpr int kClockTag = std::numeric_limits<int>::max();
constexpr int kTraceTag = kClockTag - 1;

// The shortest of so many round trips tells the clocks apart.
constexpr int kRoundTrips = 16;

template <typename T>
Buffer One(T* value) {
  return BufferOf(absl::MakeSpan(value, 1));
}

// What to add to the clock of `peer` to get this rank's: in the middle between
// a question and its answer here, the peer read its own.
absl::StatusOr<std::int64_t> AskForOffset(int peer,
                                          Communicator* communicator) {
  std::int64_t offset = 0;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kRoundTrips; ++i) {
    std::int64_t asked = internal::MonotonicNanoseconds();
    std::int64_t theirs = 0;
    SHOAL_RETURN_IF_ERROR(communicator->Send(One(&asked), peer, kClockTag));
    SHOAL_RETURN_IF_ERROR(communicator->Recv(One(&theirs), peer, kClockTag));
    const std::int64_t round_trip = internal::MonotonicNanoseconds() - asked;
    if (round_trip >= shortest) continue;
    shortest = round_trip;
    offset = asked + round_trip / 2 - theirs;
  }
  return offset;
}

absl::Status AnswerWithTime(Communicator* communicator) {
  for (int i = 0; i < kRoundTrips; ++i) {
    std::int64_t asked = 0;
    SHOAL_RETURN_IF_ERROR(communicator->Recv(One(&asked), 0, kClockTag));
    std::int64_t now = internal::MonotonicNanoseconds();
    SHOAL_RETURN_IF_ERROR(communicator->Send(One(&now), 0, kClockTag));
  }
  return absl::OkStatus();
}

std::string Encode(const std::vector<TraceEvent>& events) {
  internal::RankTraceMessage message;
  for (const TraceEvent& event : events) {
    internal::TraceEventMessage& added = *message.add_events();
    added.set_kind(static_cast<std::int32_t>(event.kind));
    added.set_call(event.call);
    added.set_bytes(event.bytes);
    added.set_begin_ns(event.begin_ns);
    added.set_end_ns(event.end_ns);
    added.set_waiting_ns(event.waiting_ns);
    added.set_succeeded(event.succeeded);
  }
  return message.SerializeAsString();
}

absl::StatusOr<std::vector<TraceEvent>> Decode(const std::string& bytes,
                                               int rank) {
  internal::RankTraceMessage message;
  if (!message.ParseFromString(bytes)) {
    return absl::DataLossError(
        absl::StrCat("GatherTrace: rank ", rank, " sent ", bytes.size(),
                     " bytes that are not its trace; do all ranks run the same "
                     "program?"));
  }
  std::vector<TraceEvent> events;
  for (const internal::TraceEventMessage& from : message.events()) {
    TraceEvent event;
    event.kind = static_cast<CallKind>(from.kind());
    event.call = from.call();
    event.bytes = from.bytes();
    event.begin_ns = from.begin_ns();
    event.end_ns = from.end_ns();
    event.waiting_ns = from.waiting_ns();
    event.succeeded = from.succeeded();
    events.push_back(std::move(event));
  }
  return events;
}

absl::Status SendTrace(const std::vector<TraceEvent>& events,
                       Communicator* communicator) {
  std::string bytes = Encode(events);
  std::int64_t size = static_cast<std::int64_t>(bytes.size());
  SHOAL_RETURN_IF_ERROR(communicator->Send(One(&size), 0, kTraceTag));
  return communicator->Send({bytes.data(), size, DType::kU8}, 0, kTraceTag);
}

absl::StatusOr<std::vector<TraceEvent>> RecvTrace(int rank,
                                                  Communicator* communicator) {
  std::int64_t size = 0;
  SHOAL_RETURN_IF_ERROR(communicator->Recv(One(&size), rank, kTraceTag));
  // Protobuf's own limit.
  if (size < 0 || size > std::numeric_limits<std::int32_t>::max()) {
    return absl::DataLossError(absl::StrCat(
        "GatherTrace: rank ", rank, " announces a trace of ", size, " bytes"));
  }
  std::string bytes;
  try {
    bytes.resize(static_cast<std::size_t>(size));
  } catch (const std::exception&) {
    const absl::Status status = absl::ResourceExhaustedError(
        absl::StrCat("GatherTrace: no memory for the ", size, " bytes of rank ",
                     rank, "'s trace; give StartTrace fewer events"));
    communicator->Abort(status);  // that rank is in its Send
    return status;
  }
  SHOAL_RETURN_IF_ERROR(
      communicator->Recv({bytes.data(), size, DType::kU8}, rank, kTraceTag));
  return Decode(bytes, rank);
}

// Calls that overlap are drawn side by side: each goes to the first lane that
// is free again when it begins.
class Lanes {
 public:
  std::int64_t Take(const TraceEvent& event) {
    for (std::size_t i = 0; i < free_at_ns_.size(); ++i) {
      if (free_at_ns_[i] > event.begin_ns) continue;
      free_at_ns_[i] = event.end_ns;
      return static_cast<std::int64_t>(i);
    }
    free_at_ns_.push_back(event.end_ns);
    return static_cast<std::int64_t>(free_at_ns_.size()) - 1;
  }

 private:
  std::vector<std::int64_t> free_at_ns_;
};

std::vector<TraceEvent> ByBegin(std::vector<TraceEvent> events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) {
                     return a.begin_ns < b.begin_ns;
                   });
  return events;
}

void AppendRankName(int rank, JsonWriter* json) {
  json->BeginObject();
  json->Key("name");
  json->String("process_name");
  json->Key("ph");
  json->String("M");
  json->Key("pid");
  json->Integer(rank);
  json->Key("args");
  json->BeginObject();
  json->Key("name");
  json->String(absl::StrCat("rank ", rank));
  json->EndObject();
  json->EndObject();
}

void AppendEvent(const TraceEvent& event, int rank, std::int64_t lane,
                 std::int64_t shift_ns, JsonWriter* json) {
  json->BeginObject();
  json->Key("name");
  json->String(CallKindName(event.kind));
  json->Key("cat");
  json->String("comm");
  json->Key("ph");
  json->String("X");
  json->Key("pid");
  json->Integer(rank);
  json->Key("tid");
  json->Integer(lane);
  json->Key("ts");
  json->Number((event.begin_ns + shift_ns) / 1e3);
  json->Key("dur");
  json->Number((event.end_ns - event.begin_ns) / 1e3);
  json->Key("args");
  json->BeginObject();
  json->Key("call");
  json->String(event.call);
  json->Key("bytes");
  json->Integer(event.bytes);
  json->Key("waiting_us");
  json->Number(event.waiting_ns / 1e3);
  json->Key("succeeded");
  json->Bool(event.succeeded);
  json->EndObject();
  json->EndObject();
}

}  // namespace

absl::StatusOr<std::string> GatherTrace(Communicator* communicator) {
  std::vector<TraceEvent> own = communicator->TakeTrace();
  if (communicator->rank() != 0) {
    SHOAL_RETURN_IF_ERROR(AnswerWithTime(communicator));
    SHOAL_RETURN_IF_ERROR(SendTrace(own, communicator));
    return std::string();
  }
  std::vector<RankTrace> traces(communicator->world_size());
  traces[0].events = std::move(own);
  for (int rank = 1; rank < communicator->world_size(); ++rank) {
    SHOAL_ASSIGN_OR_RETURN(traces[rank].offset_ns,
                           AskForOffset(rank, communicator));
    SHOAL_ASSIGN_OR_RETURN(traces[rank].events, RecvTrace(rank, communicator));
  }
  return internal::TraceToJson(traces);
}

namespace internal {

// The format: "Trace Event Format", Google, 2016. Complete events ("X") with
// times in microseconds; metadata events ("M") name the processes.
std::string TraceToJson(absl::Span<const RankTrace> traces) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const RankTrace& trace : traces) {
    for (const TraceEvent& event : trace.events) {
      origin = std::min(origin, event.begin_ns + trace.offset_ns);
    }
  }
  JsonWriter json;
  json.BeginObject();
  json.Key("displayTimeUnit");
  json.String("ns");
  json.Key("traceEvents");
  json.BeginArray();
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    AppendRankName(static_cast<int>(rank), &json);
    Lanes lanes;
    for (const TraceEvent& event : ByBegin(traces[rank].events)) {
      AppendEvent(event, static_cast<int>(rank), lanes.Take(event),
                  traces[rank].offset_ns - origin, &json);
    }
  }
  json.EndArray();
  json.EndObject();
  return json.text();
}

}  // namespace internal
}  // namespace shoal
