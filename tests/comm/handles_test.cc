// SPDX-License-Identifier: Apache-2.0
//
// Started operations between processes: all kinds in flight at once, and what
// becomes of them when a rank dies, leaves, disagrees or destroys its
// communicator.

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/pending_operation.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/shared_counters.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

using Values = std::vector<std::int64_t>;

constexpr std::int64_t kMany = 1 << 18;

Buffer Of(Values& values) { return BufferOf(absl::MakeSpan(values)); }

absl::Status Expect(bool holds, absl::string_view what) {
  return holds ? absl::OkStatus() : absl::InternalError(what);
}

bool AllAre(const Values& values, std::int64_t value) {
  for (const std::int64_t v : values) {
    if (v != value) return false;
  }
  return true;
}

int Culprit(const RankContext& context) {
  int culprit = -1;
  return absl::SimpleAtoi(context.argument, &culprit) ? culprit : -1;
}

// Three all-reduces under way, in memory that lives as long as they do.
struct Pending {
  std::vector<std::unique_ptr<Values>> memory;
  std::vector<PendingOperation> operations;

  // A start may find that the job has failed already.
  void Start(Communicator& communicator, std::int64_t count) {
    for (int i = 0; i < 3; ++i) {
      memory.push_back(
          std::make_unique<Values>(count, communicator.rank() + 1));
      absl::StatusOr<PendingOperation> sum =
          communicator.StartAllReduce(Of(*memory.back()), ReduceOp::kSum);
      operations.push_back(sum.ok() ? *std::move(sum)
                                    : PendingOperation(sum.status()));
    }
  }

  // The last one is waited for first.
  absl::Status ExpectAll(absl::StatusCode code,
                         const std::vector<std::string>& words) {
    while (!operations.empty()) {
      const absl::Status status = operations.back().Wait();
      SHOAL_RETURN_IF_ERROR(ExpectStatus(status, code, words));
      SHOAL_RETURN_IF_ERROR(Expect(operations.back().Wait() == status,
                                   "waiting again gives another result"));
      operations.pop_back();
    }
    return absl::OkStatus();
  }
};

SHOAL_RANK_BODY(AllKindsInFlight) {
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  const int world = context.world_size;
  const std::int64_t mine = comm->rank() + 1;
  const std::int64_t sum = world * (world + 1) / 2;
  const int next = (comm->rank() + 1) % world;
  const int previous = (comm->rank() + world - 1) % world;
  for (const std::int64_t count :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{13}, kMany + 7}) {
    Values reduced(count, mine);
    Values whole(count * world, mine);
    Values part(count);
    Values gathered(count * world);
    Values told(count, comm->rank() == world - 1 ? 42 : 0);
    Values sent(count, mine);
    Values received(count);
    Values exchanged(count);
    std::vector<PendingOperation> operations;
    absl::Status starts;
    const auto add = [&](absl::StatusOr<PendingOperation> started) {
      starts.Update(started.status());
      if (started.ok()) operations.push_back(*std::move(started));
    };
    add(comm->StartBroadcast(Of(told), world - 1));
    add(comm->StartAllReduce(Of(reduced), ReduceOp::kSum));
    add(comm->StartAllGather(Of(sent), Of(gathered)));
    if (world > 1) {
      add(comm->StartSend(Of(sent), next, 5));
      add(comm->StartRecv(Of(received), previous, 5));
    }
    add(comm->StartReduceScatter(Of(whole), Of(part), ReduceOp::kSum));
    add(comm->StartSendRecv(Of(sent), next, Of(exchanged), previous, 6));
    add(comm->StartBarrier());
    SHOAL_RETURN_IF_ERROR(starts);
    SHOAL_RETURN_IF_ERROR(comm->Barrier());
    while (!operations.empty()) {
      if (operations.size() % 2 == 0) {
        while (!operations.back().Test()) {
        }
      }
      SHOAL_RETURN_IF_ERROR(operations.back().Wait());
      operations.pop_back();
    }
    SHOAL_RETURN_IF_ERROR(Expect(AllAre(reduced, sum), "all-reduce"));
    SHOAL_RETURN_IF_ERROR(Expect(AllAre(part, sum), "reduce-scatter"));
    SHOAL_RETURN_IF_ERROR(Expect(AllAre(told, 42), "broadcast"));
    SHOAL_RETURN_IF_ERROR(
        Expect(AllAre(exchanged, previous + 1), "send and receive"));
    SHOAL_RETURN_IF_ERROR(
        Expect(world == 1 || AllAre(received, previous + 1), "receive"));
    for (std::int64_t i = 0; i < count * world; ++i) {
      SHOAL_RETURN_IF_ERROR(Expect(gathered[i] == i / count + 1, "all-gather"));
    }
  }
  return absl::OkStatus();
}

// Element i of what `from` has for `to`.
std::int64_t Told(int from, int to, std::int64_t i) {
  return from * 1'000'003 + to * 1009 + i;
}

absl::Status ExpectEach(absl::string_view what, const Values& values,
                        const std::function<std::int64_t(std::int64_t)>& of) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t expected = of(static_cast<std::int64_t>(i));
    if (values[i] == expected) continue;
    return absl::DataLossError(absl::StrCat(what, ": element ", i, " is ",
                                            values[i], " and not ", expected));
  }
  return absl::OkStatus();
}

// Memory of one round of the kinds with a root or with parts.
struct PartsRound {
  PartsRound(const Communicator& comm, std::int64_t count)
      : n(comm.world_size()), me(comm.rank()), count(count), last(n - 1) {
    for (std::int64_t i = 0; i < count; ++i) mine.push_back(Told(me, 0, i));
    for (int to = 0; to < n; ++to) {
      for (std::int64_t i = 0; i < count; ++i) {
        for_each.push_back(Told(me, to, i));
      }
      // From rank a to rank b: count + a + 2 * b elements, and rank r gathers
      // count + r from each.
      send_counts.push_back(count + me + 2 * to);
      recv_counts.push_back(count + to + 2 * me);
      gather_counts.push_back(count + to);
      for (std::int64_t i = 0; i < send_counts.back(); ++i) {
        uneven_sent.push_back(Told(me, to, i));
      }
      for (std::int64_t i = 0; i < recv_counts.back(); ++i) {
        uneven_expected.push_back(Told(to, me, i));
      }
      for (std::int64_t i = 0; i < gather_counts.back(); ++i) {
        all_expected.push_back(Told(to, 0, i));
      }
    }
    for (std::int64_t i = 0; i < gather_counts[me]; ++i) {
      part.push_back(Told(me, 0, i));
    }
  }

  // Started in this order on every rank.
  absl::Status Start(Communicator& comm,
                     std::vector<PendingOperation>* operations) {
    absl::Status starts;
    const auto add = [&](absl::StatusOr<PendingOperation> started) {
      starts.Update(started.status());
      if (started.ok()) operations->push_back(*std::move(started));
    };
    add(comm.StartReduce(Of(mine), Of(reduced), ReduceOp::kSum, last));
    add(comm.StartGather(Of(mine), Of(gathered), 0));
    add(comm.StartScatter(Of(for_each), Of(scattered), last));
    add(comm.StartAllToAll(Of(for_each), Of(exchanged)));
    add(comm.StartAllToAllV(Of(uneven_sent), send_counts, Of(uneven),
                            recv_counts));
    add(comm.StartAllGatherV(Of(part), Of(all), gather_counts));
    const std::vector<Buffer> buffers = {Of(one), Of(two), Of(three)};
    add(comm.StartAllReduceCoalesced(buffers, ReduceOp::kSum));
    return starts;
  }

  absl::Status Check() const {
    const std::int64_t ranks = n * (n - 1) / 2;
    if (me == last) {
      SHOAL_RETURN_IF_ERROR(ExpectEach("reduce", reduced, [&](std::int64_t i) {
        return ranks * 1'000'003 + n * i;
      }));
    }
    if (me == 0) {
      SHOAL_RETURN_IF_ERROR(ExpectEach("gather", gathered, [&](std::int64_t i) {
        return Told(static_cast<int>(i / count), 0, i % count);
      }));
    }
    SHOAL_RETURN_IF_ERROR(ExpectEach("scatter", scattered, [&](std::int64_t i) {
      return Told(last, me, i);
    }));
    SHOAL_RETURN_IF_ERROR(
        ExpectEach("all-to-all", exchanged, [&](std::int64_t i) {
          return Told(static_cast<int>(i / count), me, i % count);
        }));
    SHOAL_RETURN_IF_ERROR(
        Expect(uneven == uneven_expected, "all-to-all of unequal parts"));
    SHOAL_RETURN_IF_ERROR(
        Expect(all == all_expected, "all-gather of unequal parts"));
    const std::int64_t sum = ranks + n;
    return Expect(
        AllAre(one, sum) && AllAre(two, 2 * sum) && AllAre(three, 3 * sum),
        "all-reduce of several");
  }

  const int n;
  const int me;
  const std::int64_t count;
  const int last;
  std::vector<std::int64_t> send_counts, recv_counts, gather_counts;
  Values mine, for_each, uneven_sent, uneven_expected, part, all_expected;
  Values reduced = Values(count);
  Values gathered = Values(count * n);
  Values scattered = Values(count);
  Values exchanged = Values(count * n);
  // Sums of the counts above.
  Values uneven = Values(n * (count + 2 * me) + n * (n - 1) / 2);
  Values all = Values(n * count + n * (n - 1) / 2);
  Values one = Values(count, me + 1);
  Values two = Values(1, 2 * (me + 1));
  Values three = Values(2 * count + 3, 3 * (me + 1));
};

SHOAL_RANK_BODY(PartsInFlight) {
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  for (const std::int64_t count : {0, 1, 5, 1009, 20'011}) {
    // Two rounds of all kinds at once; every rank waits in an order of its own.
    PartsRound first(*comm, count);
    PartsRound second(*comm, count + 2);
    std::vector<PendingOperation> operations;
    SHOAL_RETURN_IF_ERROR(first.Start(*comm, &operations));
    SHOAL_RETURN_IF_ERROR(second.Start(*comm, &operations));
    const std::size_t size = operations.size();
    for (std::size_t k = 0; k < size; ++k) {
      // 5 has no divisor in common with 14.
      const std::size_t next = (5 * k + 3 * comm->rank() + size / 2) % size;
      SHOAL_RETURN_IF_ERROR(operations[next].Wait());
    }
    SHOAL_RETURN_IF_ERROR(first.Check());
    SHOAL_RETURN_IF_ERROR(second.Check());
  }
  return absl::OkStatus();
}

// The last rank stays out of the all-reduce.
SHOAL_RANK_BODY(OneDoesNotEnter) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  SHOAL_RETURN_IF_ERROR(comm->Barrier());
  const int last = context.world_size - 1;
  const std::vector<std::string> words = {absl::StrCat("rank ", last),
                                          "AllReduce"};
  if (context.rank == last) {
    SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, last));
    return ExpectStatus(comm->Barrier(), absl::StatusCode::kDeadlineExceeded,
                        words);
  }
  CallOptions options;
  options.timeout = absl::Seconds(1) * TimeoutScale();
  Values values(100);
  SHOAL_ASSIGN_OR_RETURN(
      PendingOperation sum,
      comm->StartAllReduce(Of(values), ReduceOp::kSum, options));
  const absl::Status status = sum.Wait();
  counters[0].fetch_add(1);
  return ExpectStatus(status, absl::StatusCode::kDeadlineExceeded, words);
}

// Destroying a handle waits for its operation, and the others go on.
SHOAL_RANK_BODY(HandlesDestroyedEarly) {
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  const std::int64_t sum = context.world_size * (context.world_size + 1) / 2;
  for (const std::int64_t count : {std::int64_t{1}, kMany}) {
    Values first(count, comm->rank() + 1);
    Values second(count, comm->rank() + 1);
    SHOAL_ASSIGN_OR_RETURN(PendingOperation later,
                           comm->StartAllReduce(Of(first), ReduceOp::kSum));
    {
      SHOAL_ASSIGN_OR_RETURN(const PendingOperation early,
                             comm->StartAllReduce(Of(second), ReduceOp::kSum));
    }
    SHOAL_RETURN_IF_ERROR(Expect(AllAre(second, sum), "destroyed early"));
    SHOAL_RETURN_IF_ERROR(later.Wait());
    SHOAL_RETURN_IF_ERROR(Expect(AllAre(first, sum), "the other one"));
  }
  return absl::OkStatus();
}

// Nobody receives before all sends were started; then in another order.
SHOAL_RANK_BODY(StartsDoNotWait) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  if (comm->rank() == 0) {
    std::vector<Values> out;
    for (int tag = 0; tag < 4; ++tag) out.emplace_back(kMany, tag);
    std::vector<PendingOperation> sends;
    for (int tag = 0; tag < 4; ++tag) {
      SHOAL_ASSIGN_OR_RETURN(PendingOperation send,
                             comm->StartSend(Of(out[tag]), 1, tag));
      sends.push_back(std::move(send));
    }
    SHOAL_RETURN_IF_ERROR(
        Expect(!sends[3].Test(), "a large message went without its receive"));
    counters[0].store(1);
    // Driven by nobody but the library until the other rank has them all.
    SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(1, 1));
    for (PendingOperation& send : sends) SHOAL_RETURN_IF_ERROR(send.Wait());
    return absl::OkStatus();
  }
  SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, 1));
  for (int tag = 3; tag >= 0; --tag) {
    Values in(kMany, -1);
    SHOAL_RETURN_IF_ERROR(comm->Recv(Of(in), 0, tag));
    SHOAL_RETURN_IF_ERROR(Expect(AllAre(in, tag), "received"));
  }
  counters[1].store(1);
  return absl::OkStatus();
}

SHOAL_RANK_BODY(KilledWithHandles) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  SHOAL_RETURN_IF_ERROR(comm->Barrier());
  counters[0].fetch_add(1);
  SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, context.world_size));
  Pending pending;
  if (context.rank == Culprit(context)) {
    Values values(kMany);
    SHOAL_ASSIGN_OR_RETURN(const PendingOperation one,
                           comm->StartAllReduce(Of(values), ReduceOp::kSum));
    raise(SIGKILL);
  }
  pending.Start(*comm, kMany);
  // Those that nobody waits for fail too.
  const Stopwatch stopwatch;
  while (!pending.operations[2].Test()) {
  }
  SHOAL_RETURN_IF_ERROR(
      Expect(stopwatch.Elapsed() < absl::Seconds(10) * TimeoutScale(),
             "it took long to notice the death"));
  const std::vector<std::string> words = {
      absl::StrCat("rank ", context.argument)};
  SHOAL_RETURN_IF_ERROR(ExpectStatus(comm->StartBarrier().status(),
                                     absl::StatusCode::kUnavailable, words));
  // The first may have been done before.
  return pending.ExpectAll(absl::StatusCode::kUnavailable, words);
}

SHOAL_RANK_BODY(DestroyedWithHandles) {
  SHOAL_ASSIGN_OR_RETURN(auto comm, context.Join());
  SHOAL_RETURN_IF_ERROR(comm->Barrier());
  Pending pending;
  const bool culprit = context.rank == Culprit(context);
  if (!culprit) {
    pending.Start(*comm, kMany);
  } else {
    // The others cannot finish it without the other two.
    pending.memory.push_back(std::make_unique<Values>(kMany));
    SHOAL_ASSIGN_OR_RETURN(PendingOperation recv,
                           comm->StartRecv(Of(*pending.memory.back()),
                                           context.rank == 0 ? 1 : 0, 7));
    pending.operations.push_back(std::move(recv));
    comm = nullptr;
  }
  return pending.ExpectAll(
      absl::StatusCode::kCancelled,
      {absl::StrCat("rank ", context.argument, " destroyed")});
}

SHOAL_RANK_BODY(HandlesDisagree) {
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  SHOAL_RETURN_IF_ERROR(comm->Barrier());
  Pending pending;
  const bool culprit = context.rank == Culprit(context);
  pending.Start(*comm, culprit ? 100 : 101);
  return pending.ExpectAll(absl::StatusCode::kFailedPrecondition,
                           {"i64 x 100,", "i64 x 101,"});
}

SHOAL_RANK_BODY(RecvFromOneThatLeft) {
  SHOAL_ASSIGN_OR_RETURN(auto comm, context.Join());
  SHOAL_RETURN_IF_ERROR(comm->Barrier());
  if (context.rank == 1) return absl::OkStatus();
  Values values(3);
  const Stopwatch stopwatch;
  SHOAL_RETURN_IF_ERROR(ExpectStatus(comm->Recv(Of(values), 1),
                                     absl::StatusCode::kUnavailable,
                                     {"rank 1", "left"}));
  return Expect(stopwatch.Elapsed() < absl::Seconds(15) * TimeoutScale(),
                "it took long to notice that rank 1 had left");
}

class HandlesWorldsTest : public testing::TestWithParam<int> {};

TEST_P(HandlesWorldsTest, AllKindsInFlight) {
  EXPECT_TRUE(WorldSucceeds("AllKindsInFlight", GetParam()));
}

TEST_P(HandlesWorldsTest, PartsInFlight) {
  EXPECT_TRUE(WorldSucceeds("PartsInFlight", GetParam()));
}

TEST_P(HandlesWorldsTest, AHandleDestroyedEarlyWaits) {
  EXPECT_TRUE(WorldSucceeds("HandlesDestroyedEarly", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, HandlesWorldsTest, testing::Range(1, 9));

TEST(HandlesTest, StartsDoNotWait) {
  EXPECT_TRUE(WorldSucceeds("StartsDoNotWait", 2));
}

TEST(HandlesTest, AHandlesOwnTimeoutNamesTheRankThatStaysOut) {
  for (const int world_size : {2, 5}) {
    EXPECT_TRUE(WorldSucceeds("OneDoesNotEnter", world_size));
  }
}

TEST(HandlesTest, ADeathEndsAll) {
  for (const int world_size : {2, 4}) {
    WorldOptions options;
    options.argument = absl::StrCat(world_size - 1);
    options.killed_by = {{world_size - 1, SIGKILL}};
    EXPECT_TRUE(WorldSucceeds("KilledWithHandles", world_size, options));
  }
}

TEST(HandlesTest, DestroyingTheCommunicatorEndsAll) {
  WorldOptions options;
  options.argument = "1";
  EXPECT_TRUE(WorldSucceeds("DestroyedWithHandles", 3, options));
}

TEST(HandlesTest, DisagreementEndsAll) {
  for (const int world_size : {2, 5}) {
    WorldOptions options;
    options.argument = "1";
    EXPECT_TRUE(WorldSucceeds("HandlesDisagree", world_size, options));
  }
}

TEST(HandlesTest, ARecvFromARankThatLeftEndsSoon) {
  EXPECT_TRUE(WorldSucceeds("RecvFromOneThatLeft", 3));
}

}  // namespace
}  // namespace shoal::tests
