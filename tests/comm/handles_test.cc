// SPDX-License-Identifier: Apache-2.0
//
// Started operations between processes: all kinds in flight at once, and what
// becomes of them when a rank dies, leaves, disagrees or destroys its
// communicator.

#include <signal.h>

#include <cstdint>
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

INSTANTIATE_TEST_SUITE_P(Worlds, HandlesWorldsTest, testing::Range(1, 9));

TEST(HandlesTest, StartsDoNotWait) {
  EXPECT_TRUE(WorldSucceeds("StartsDoNotWait", 2));
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
