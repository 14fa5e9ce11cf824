// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/collectives.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tools/comm_bench/pattern.h"

namespace shoal::comm_bench {
namespace {

double Once(int) { return 1; }
double AllButOwnPart(int world_size) {
  return static_cast<double>(world_size - 1) / world_size;
}
// The part that an all_to_all_v keeps is 1 / n of the mean.
double AllButTheSmallestPart(int world_size) {
  return 1 - 1.0 / (world_size * world_size);
}
double AllButOwnPartTwice(int world_size) {
  return 2 * AllButOwnPart(world_size);
}

using Segments = std::vector<Segment>;

Segments TheReduction(std::int64_t count, const Place&) {
  return {{0, count, kReduced, 0}};
}

Segments TheReductionOnTheRoot(std::int64_t count, const Place& place) {
  if (place.rank != place.root) return {};
  return TheReduction(count, place);
}

Segments OwnPartOfTheReduction(std::int64_t count, const Place& place) {
  return {{0, count, kReduced, place.rank * count}};
}

Segments InputsOfAll(std::int64_t count, const Place& place) {
  Segments segments;
  for (int rank = 0; rank < place.world_size; ++rank) {
    segments.push_back({rank * count, count, rank, 0});
  }
  return segments;
}

Segments InputsOfAllOnTheRoot(std::int64_t count, const Place& place) {
  if (place.rank != place.root) return {};
  return InputsOfAll(count, place);
}

Segments OwnPartOfTheRootsInput(std::int64_t count, const Place& place) {
  return {{0, count, place.root, place.rank * count}};
}

Segments OwnPartOfEachInput(std::int64_t count, const Place& place) {
  Segments segments;
  for (int rank = 0; rank < place.world_size; ++rank) {
    segments.push_back({rank * count, count, rank, place.rank * count});
  }
  return segments;
}

Segments InputOfTheRoot(std::int64_t count, const Place& place) {
  return {{0, count, place.root, 0}};
}

Segments InputOfThePreviousRank(std::int64_t count, const Place& place) {
  const int previous = (place.rank + place.world_size - 1) % place.world_size;
  return {{0, count, previous, 0}};
}

Segments InputOfRank0OnRanks0And1(std::int64_t count, const Place& place) {
  if (place.rank > 1) return {};
  return {{0, count, 0, 0}};
}

// The unequal lengths of parts: offset r is count r^2 / n, so that the sum is
// that of n parts of `count` elements.
std::int64_t UnequalStart(std::int64_t count, int part, int parts) {
  return count * part * part / parts;
}

std::int64_t UnequalCount(std::int64_t count, int part, int parts) {
  return UnequalStart(count, part + 1, parts) -
         UnequalStart(count, part, parts);
}

Segments UnequalInputsOfAll(std::int64_t count, const Place& place) {
  Segments segments;
  for (int rank = 0; rank < place.world_size; ++rank) {
    segments.push_back({UnequalStart(count, rank, place.world_size),
                        UnequalCount(count, rank, place.world_size), rank, 0});
  }
  return segments;
}

// Elements that one rank sends another. All ranks send, and receive, as many
// altogether, and no two exchange as many as they get.
std::int64_t Sent(std::int64_t count, int from, int to, int world_size) {
  const int distance = (to - from + world_size) % world_size;
  return UnequalCount(count, distance, world_size);
}

Segments UnequalPartOfEachInput(std::int64_t count, const Place& place) {
  Segments segments;
  std::int64_t position = 0;
  for (int from = 0; from < place.world_size; ++from) {
    std::int64_t first = 0;
    for (int to = 0; to < place.rank; ++to) {
      first += Sent(count, from, to, place.world_size);
    }
    const std::int64_t length = Sent(count, from, place.rank, place.world_size);
    segments.push_back({position, length, from, first});
    position += length;
  }
  return segments;
}

void PrepareAllGatherV(std::int64_t count, const Place& place, Exercise* e) {
  for (int rank = 0; rank < place.world_size; ++rank) {
    e->recv_counts.push_back(UnequalCount(count, rank, place.world_size));
  }
}

void PrepareAllToAllV(std::int64_t count, const Place& place, Exercise* e) {
  for (int peer = 0; peer < place.world_size; ++peer) {
    e->send_counts.push_back(Sent(count, place.rank, peer, place.world_size));
    e->recv_counts.push_back(Sent(count, peer, place.rank, place.world_size));
  }
}

// Tensors of unequal lengths, end to end.
void PrepareTensors(std::int64_t count, const Place&, Exercise* e) {
  char* const data = static_cast<char*>(e->output.data);
  const auto element_bytes =
      static_cast<std::int64_t>(DTypeSize(e->output.dtype));
  for (int i = 0; i < kTensors; ++i) {
    // UnequalStart's growth, in squares of kTensors.
    const std::int64_t start = count * i * i / (kTensors * kTensors);
    const std::int64_t end = count * (i + 1) * (i + 1) / (kTensors * kTensors);
    e->tensors.push_back(
        {data + start * element_bytes, end - start, e->output.dtype});
  }
}

Segments Nothing(std::int64_t, const Place&) { return {}; }

absl::Status RunSendRecv(const Exercise& e) {
  const int rank = e.communicator->rank();
  const int world = e.communicator->world_size();
  return e.communicator->SendRecv(e.input, (rank + 1) % world, e.output,
                                  (rank + world - 1) % world, /*tag=*/0,
                                  e.options);
}

// Rank 1 sends back what it gets; the others look on.
absl::Status RunPingPong(const Exercise& e) {
  if (e.communicator->rank() == 0) {
    SHOAL_RETURN_IF_ERROR(
        e.communicator->Send(e.input, /*to=*/1, /*tag=*/0, e.options));
    return e.communicator->Recv(e.output, /*from=*/1, /*tag=*/0, e.options);
  }
  if (e.communicator->rank() == 1) {
    SHOAL_RETURN_IF_ERROR(
        e.communicator->Recv(e.output, /*from=*/0, /*tag=*/0, e.options));
    return e.communicator->Send(e.output, /*to=*/0, /*tag=*/0, e.options);
  }
  return absl::OkStatus();
}

std::vector<Collective> MakeCollectives() {
  return {
      {.name = "all_reduce",
       .summary = "every rank gets the reduction of all inputs",
       .kind = CallKind::kAllReduce,
       .has_op = true,
       .bus_factor = AllButOwnPartTwice,
       .run =
           [](const Exercise& e) {
             return e.communicator->AllReduce(e.input, e.output, e.op,
                                              e.options);
           },
       .expected = TheReduction},
      {.name = "reduce_scatter",
       .summary = "each rank gets its part of the reduction",
       .kind = CallKind::kReduceScatter,
       .output = Share::kPart,
       .has_op = true,
       .bus_factor = AllButOwnPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->ReduceScatter(e.input, e.output, e.op,
                                                  e.options);
           },
       .expected = OwnPartOfTheReduction},
      {.name = "all_gather",
       .summary = "every rank gets the inputs of all",
       .kind = CallKind::kAllGather,
       .input = Share::kPart,
       .bus_factor = AllButOwnPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->AllGather(e.input, e.output, e.options);
           },
       .expected = InputsOfAll},
      {.name = "broadcast",
       .summary = "every rank gets the root's elements",
       .kind = CallKind::kBroadcast,
       .out_of_place = false,
       .has_root = true,
       .needs_barrier = true,
       .bus_factor = Once,
       .run =
           [](const Exercise& e) {
             return e.communicator->Broadcast(e.output, e.root, e.options);
           },
       .expected = InputOfTheRoot},
      {.name = "reduce",
       .summary = "the root gets the reduction of all inputs",
       .kind = CallKind::kReduce,
       .has_op = true,
       .has_root = true,
       .needs_barrier = true,
       .bus_factor = Once,
       .run =
           [](const Exercise& e) {
             return e.communicator->Reduce(e.input, e.output, e.op, e.root,
                                           e.options);
           },
       .expected = TheReductionOnTheRoot},
      {.name = "gather",
       .summary = "the root gets the inputs of all",
       .kind = CallKind::kGather,
       .input = Share::kPart,
       .has_root = true,
       .needs_barrier = true,
       .bus_factor = AllButOwnPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->Gather(e.input, e.output, e.root,
                                           e.options);
           },
       .expected = InputsOfAllOnTheRoot},
      {.name = "scatter",
       .summary = "each rank gets its part of the root's input",
       .kind = CallKind::kScatter,
       .output = Share::kPart,
       .has_root = true,
       .needs_barrier = true,
       .bus_factor = AllButOwnPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->Scatter(e.input, e.output, e.root,
                                            e.options);
           },
       .expected = OwnPartOfTheRootsInput},
      {.name = "all_to_all",
       .summary = "each rank gets its part of every rank's input",
       .kind = CallKind::kAllToAll,
       .has_parts = true,
       .bus_factor = AllButOwnPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->AllToAll(e.input, e.output, e.options);
           },
       .expected = OwnPartOfEachInput},
      {.name = "all_gather_v",
       .summary = "all_gather, where rank r has (2r+1)/n of an equal part",
       .kind = CallKind::kAllGatherV,
       .input = Share::kPart,
       .unequal = true,
       .bus_factor = AllButOwnPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->AllGatherV(e.input, e.output, e.recv_counts,
                                               e.options);
           },
       .prepare = PrepareAllGatherV,
       .expected = UnequalInputsOfAll},
      {.name = "all_to_all_v",
       .summary = "all_to_all, where rank r+d gets (2d+1)/n of an equal part",
       .kind = CallKind::kAllToAllV,
       .has_parts = true,
       .in_place = false,
       .bus_factor = AllButTheSmallestPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->AllToAllV(e.input, e.send_counts, e.output,
                                              e.recv_counts, e.options);
           },
       .prepare = PrepareAllToAllV,
       .expected = UnequalPartOfEachInput},
      {.name = "all_reduce_coalesced",
       .summary = "one all_reduce of eight tensors of unequal lengths",
       .kind = CallKind::kAllReduce,
       .out_of_place = false,
       .has_op = true,
       .bus_factor = AllButOwnPartTwice,
       .run =
           [](const Exercise& e) {
             return e.communicator->AllReduceCoalesced(e.tensors, e.op,
                                                       e.options);
           },
       .prepare = PrepareTensors,
       .expected = TheReduction},
      {.name = "broadcast_string",
       .summary = "every rank gets the root's string, and its length",
       .kind = CallKind::kBroadcast,
       .is_string = true,
       .out_of_place = false,
       .has_root = true,
       .needs_barrier = true,
       .bus_factor = Once,
       .run =
           [](const Exercise& e) {
             return e.communicator->BroadcastString(e.text, e.root, e.options);
           },
       .expected = InputOfTheRoot},
      {.name = "sendrecv",
       .summary = "each rank sends to the next, receives from the previous",
       .kind = {},
       .in_place = false,
       .bus_factor = Once,
       .run = RunSendRecv,
       .expected = InputOfThePreviousRank},
      {.name = "ping_pong",
       .summary = "rank 0 sends to rank 1, which sends it back",
       .kind = {},
       .min_world_size = 2,
       .time_factor = 0.5,
       .bus_factor = Once,
       .run = RunPingPong,
       .expected = InputOfRank0OnRanks0And1},
      {.name = "barrier",
       .summary = "no data: every rank waits for all",
       .kind = CallKind::kBarrier,
       .input = Share::kNothing,
       .output = Share::kNothing,
       .in_place = false,
       .bus_factor = Once,
       .run =
           [](const Exercise& e) { return e.communicator->Barrier(e.options); },
       .expected = Nothing},
  };
}

}  // namespace

std::int64_t Collective::CountFor(std::int64_t elements, int world_size) const {
  return shares() ? elements / world_size : elements;
}

std::int64_t Collective::PartStart(std::int64_t count, int rank,
                                   int world_size) const {
  return unequal ? UnequalStart(count, rank, world_size) : count * rank;
}

std::int64_t Collective::BufferCount(Share share, std::int64_t count, int rank,
                                     int world_size) const {
  switch (share) {
    case Share::kNothing:
      return 0;
    case Share::kPart:
      return PartStart(count, rank + 1, world_size) -
             PartStart(count, rank, world_size);
    case Share::kWhole:
      return shares() ? count * world_size : count;
  }
  return 0;
}

bool ReductionTakes(ReduceOp op, DType dtype, WireFormat wire) {
  // The user's function would get f32 where it expects the type.
  if (op == ReduceOp::kUser && wire == WireFormat::kF32) return false;
  return ReduceOpTakes(op, dtype) && WireFormatTakes(wire, dtype);
}

absl::Span<const Collective> AllCollectives() {
  static const auto& collectives =
      *new std::vector<Collective>(MakeCollectives());
  return collectives;
}

std::string CollectiveNames() {
  return absl::StrJoin(AllCollectives(), ", ",
                       [](std::string* out, const Collective& collective) {
                         absl::StrAppend(out, collective.name);
                       });
}

std::string CollectivesText() {
  std::string text;
  for (const Collective& collective : AllCollectives()) {
    absl::StrAppend(&text, "  ",
                    absl::StrFormat("%-20s", std::string(collective.name)), " ",
                    collective.summary, "\n");
  }
  return text;
}

absl::StatusOr<const Collective*> FindCollective(absl::string_view name) {
  for (const Collective& collective : AllCollectives()) {
    if (collective.name == name) return &collective;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no collective \"", name, "\"; there are ", CollectiveNames()));
}

}  // namespace shoal::comm_bench
