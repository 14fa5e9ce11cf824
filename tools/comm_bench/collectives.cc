// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/collectives.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call.h"
#include "shoal/comm/communicator.h"
#include "shoal/tools/comm_bench/pattern.h"

namespace shoal::comm_bench {
namespace {

double Once(int) { return 1; }
double AllButOwnPart(int world_size) {
  return static_cast<double>(world_size - 1) / world_size;
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
       .kind = CallKind::kAllGather,
       .input = Share::kPart,
       .bus_factor = AllButOwnPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->AllGather(e.input, e.output, e.options);
           },
       .expected = InputsOfAll},
      {.name = "broadcast",
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
       .kind = CallKind::kAllToAll,
       .has_parts = true,
       .bus_factor = AllButOwnPart,
       .run =
           [](const Exercise& e) {
             return e.communicator->AllToAll(e.input, e.output, e.options);
           },
       .expected = OwnPartOfEachInput},
      {.name = "sendrecv",
       .kind = {},
       .in_place = false,
       .bus_factor = Once,
       .run = RunSendRecv,
       .expected = InputOfThePreviousRank},
      {.name = "ping_pong",
       .kind = {},
       .min_world_size = 2,
       .time_factor = 0.5,
       .bus_factor = Once,
       .run = RunPingPong,
       .expected = InputOfRank0OnRanks0And1},
      {.name = "barrier",
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

std::int64_t Collective::BufferCount(Share share, std::int64_t count,
                                     int world_size) const {
  switch (share) {
    case Share::kNothing:
      return 0;
    case Share::kPart:
      return count;
    case Share::kWhole:
      return shares() ? count * world_size : count;
  }
  return 0;
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

absl::StatusOr<const Collective*> FindCollective(absl::string_view name) {
  for (const Collective& collective : AllCollectives()) {
    if (collective.name == name) return &collective;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no collective \"", name, "\"; there are ", CollectiveNames()));
}

}  // namespace shoal::comm_bench
