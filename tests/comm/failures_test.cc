// SPDX-License-Identifier: Apache-2.0
//
// What every rank is told when one of them dies, stops, leaves, or calls
// something else. Each body is the whole world's part, and the rank at fault,
// the "culprit", is the test's argument.
//
// No bound on time here is tight: they tell "at once" from "never".

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/timeouts.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/shared_counters.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

constexpr std::int64_t kManyElements = 1 << 20;

// The counter of the ranks that have joined; bodies use those below it.
constexpr int kJoined = SharedCounters::kCount - 1;

int Culprit(const RankContext& context) {
  int culprit = -1;
  if (!absl::SimpleAtoi(context.argument, &culprit)) return -1;
  return culprit;
}

// A rank's end of a world in which something is about to go wrong.
struct Member {
  std::unique_ptr<Communicator> communicator;
  std::string culprit_name;
  bool is_culprit = false;

  absl::Status AllReduce(std::int64_t count) {
    std::vector<float> values(count, 1);
    return communicator->AllReduce(BufferOf(absl::MakeSpan(values)),
                                   ReduceOp::kSum);
  }
};

// Joins, and waits until everybody has left the first operation: one that was
// still in it would hear of the trouble there.
absl::StatusOr<Member> JoinForTrouble(
    const RankContext& context,
    const Timeouts& timeouts = RankContext::SlowBuildTimeouts()) {
  struct sigaction action;
  sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) {
    return absl::InternalError("SIGPIPE has to be able to kill");
  }
  Member member;
  SHOAL_ASSIGN_OR_RETURN(member.communicator, context.Join(timeouts));
  SHOAL_RETURN_IF_ERROR(member.communicator->Barrier());
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  counters[kJoined].fetch_add(1);
  SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(kJoined, context.world_size));
  member.culprit_name = absl::StrCat("rank ", context.argument);
  member.is_culprit = context.rank == Culprit(context);
  return member;
}

// The job's error, once more and at once: the communicator is closed for good.
absl::Status ExpectClosed(Member& member, const absl::Status& first) {
  const Stopwatch stopwatch;
  for (const absl::Status& status :
       {member.AllReduce(1), member.communicator->Barrier()}) {
    if (status != first) {
      return absl::InternalError(absl::StrCat("a later call returned ",
                                              status.ToString(), " after ",
                                              first.ToString()));
    }
  }
  if (stopwatch.Elapsed() > absl::Seconds(1) * TimeoutScale()) {
    return absl::InternalError("a call on a closed communicator waited");
  }
  return absl::OkStatus();
}

// `status`, which an operation returned after `elapsed`, says that the culprit
// died.
absl::Status ExpectDeath(Member& member, const absl::Status& status,
                         absl::Duration elapsed) {
  SHOAL_RETURN_IF_ERROR(ExpectStatus(status, absl::StatusCode::kUnavailable,
                                     {member.culprit_name}));
  if (elapsed > absl::Seconds(5) * TimeoutScale()) {
    return absl::InternalError(absl::StrCat(
        "it took ", absl::FormatDuration(elapsed), " to notice the death"));
  }
  return ExpectClosed(member, status);
}

SHOAL_RANK_BODY(KilledBeforeAnOperation) {
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  if (member.is_culprit) raise(SIGKILL);
  const Stopwatch stopwatch;
  const absl::Status status = member.AllReduce(kManyElements);
  return ExpectDeath(member, status, stopwatch.Elapsed());
}

// The culprit's second thread kills it at some moment of many large operations.
SHOAL_RANK_BODY(KilledInAnOperation) {
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  std::thread killer;
  if (member.is_culprit) {
    killer = std::thread([&context] {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(20 + 7 * context.world_size));
      raise(SIGKILL);
    });
  }
  while (true) {
    const Stopwatch stopwatch;
    const absl::Status status = member.AllReduce(kManyElements);
    if (!status.ok()) {
      return ExpectDeath(member, status, stopwatch.Elapsed());
    }
  }
}

// The same among messages: the culprit is somebody's sender or receiver.
SHOAL_RANK_BODY(KilledInAMessage) {
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  const int world = context.world_size;
  const int next = (context.rank + 1) % world;
  const int previous = (context.rank + world - 1) % world;
  std::vector<float> out(kManyElements);
  std::vector<float> in(kManyElements);
  for (int round = 0;; ++round) {
    if (member.is_culprit && round == 3) raise(SIGKILL);
    const Stopwatch stopwatch;
    const absl::Status status =
        member.communicator->SendRecv(BufferOf(absl::MakeConstSpan(out)), next,
                                      BufferOf(absl::MakeSpan(in)), previous);
    if (!status.ok()) {
      return ExpectDeath(member, status, stopwatch.Elapsed());
    }
  }
}

// The others compute while it happens, one of them until all the rest are gone
// too: even that one is told of the culprit and not of them.
SHOAL_RANK_BODY(KilledBetweenOperations) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  if (member.is_culprit) {
    counters[0].store(1);
    raise(SIGKILL);
  }
  SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, 1));
  const int last = Culprit(context) == 0 ? 1 : 0;
  if (context.rank == last) {
    SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(1, context.world_size - 2));
  }
  const Stopwatch stopwatch;
  const absl::Status status = member.communicator->Barrier();
  const absl::Status verdict = ExpectDeath(member, status, stopwatch.Elapsed());
  member.communicator.reset();
  counters[1].fetch_add(1);
  return verdict;
}

// A child that the culprit forked outlives it, with a copy of every descriptor
// that it did not close.
SHOAL_RANK_BODY(KilledWithAForkedChild) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  if (member.is_culprit) {
    const pid_t child = fork();
    if (child == 0) {
      // Out of reach of the harness, which ends the culprit's group. Only
      // what is safe after fork() in a program with threads.
      setsid();
      counters[0].store(1);
      for (int i = 0; i < 60'000; ++i) {
        if (counters[1].load() >= context.world_size - 1) _exit(0);
        usleep(1000);
      }
      _exit(1);
    }
    if (child < 0) return absl::InternalError("cannot fork");
    SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, 1));
    raise(SIGKILL);
  }
  const Stopwatch stopwatch;
  const absl::Status status = member.AllReduce(kManyElements);
  const absl::Status verdict = ExpectDeath(member, status, stopwatch.Elapsed());
  counters[1].fetch_add(1);
  return verdict;
}

// The culprit stands still, and nobody but it knows.
SHOAL_RANK_BODY(Stopped) {
  Timeouts timeouts = RankContext::SlowBuildTimeouts();
  timeouts.operation = absl::Seconds(2);
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context, timeouts));
  if (member.is_culprit) raise(SIGSTOP);
  const Stopwatch stopwatch;
  const absl::Status status = member.AllReduce(kManyElements);
  SHOAL_RETURN_IF_ERROR(
      ExpectStatus(status, absl::StatusCode::kDeadlineExceeded,
                   {member.culprit_name, "silent", "AllReduce", "2s"}));
  if (stopwatch.Elapsed() >
      absl::Seconds(2) + absl::Seconds(5) * TimeoutScale()) {
    return absl::InternalError("it took too long");
  }
  return ExpectClosed(member, status);
}

// The culprit lives, but makes a call less than the others: its second one is
// not made until they have given up.
SHOAL_RANK_BODY(OneCallBehind) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  Timeouts timeouts = RankContext::SlowBuildTimeouts();
  timeouts.operation = absl::Seconds(2);
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context, timeouts));
  SHOAL_RETURN_IF_ERROR(member.AllReduce(10));
  if (member.is_culprit) {
    SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, context.world_size - 1));
  }
  // The barrier of joining was #1.
  const absl::Status status = member.AllReduce(kManyElements);
  counters[0].fetch_add(1);
  SHOAL_RETURN_IF_ERROR(ExpectStatus(
      status, absl::StatusCode::kDeadlineExceeded,
      {member.culprit_name, "alive", "last completed #2", "AllReduce"}));
  return ExpectClosed(member, status);
}

// Whoever is to leave does so while the others need it.
SHOAL_RANK_BODY(LeavesInMidOperation) {
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  if (member.is_culprit) {
    member.communicator.reset();
    return absl::OkStatus();
  }
  const Stopwatch stopwatch;
  const absl::Status status = member.AllReduce(kManyElements);
  return ExpectDeath(member, status, stopwatch.Elapsed());
}

// Another thread than the one in the operation.
SHOAL_RANK_BODY(Aborts) {
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  std::thread aborter;
  if (member.is_culprit) {
    aborter = std::thread([&member] {
      member.communicator->Abort(
          absl::ResourceExhaustedError("the tea is all gone"));
    });
  }
  // The culprit as well waits for somebody: rank 0, or rank 1, does not come
  // before it has heard.
  absl::Status status;
  if (context.rank == (Culprit(context) == 0 ? 1 : 0)) {
    float nothing = 0;
    status = member.communicator->Recv({&nothing, 1, DType::kF32},
                                       Culprit(context), 77);
  } else {
    status = member.AllReduce(kManyElements);
  }
  if (aborter.joinable()) aborter.join();
  SHOAL_RETURN_IF_ERROR(ExpectStatus(
      status, absl::StatusCode::kResourceExhausted, {"the tea is all gone"}));
  return ExpectClosed(member, status);
}

// The culprit's call differs from the others'. `argument` is "rank kind".
SHOAL_RANK_BODY(Mismatches) {
  RankContext joining = context;
  joining.argument = context.argument.substr(0, 1);
  const std::string kind = context.argument.substr(2);
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(joining));
  Communicator& communicator = *member.communicator;
  std::vector<float> values(200, 1);
  std::vector<std::int32_t> integers(200, 1);
  const absl::Span<float> span = absl::MakeSpan(values);
  const bool other = member.is_culprit;
  absl::Status status;
  std::vector<std::string> words = {member.culprit_name};
  if (kind == "count") {
    words.insert(words.end(), {"100", "200"});
    status = communicator.AllReduce(BufferOf(other ? span : span.first(100)),
                                    ReduceOp::kSum);
  } else if (kind == "zero") {
    words.insert(words.end(), {"x 0", "x 200"});
    status = communicator.AllReduce(BufferOf(other ? span : span.first(0)),
                                    ReduceOp::kSum);
  } else if (kind == "op") {
    words.insert(words.end(), {"max", "sum"});
    status = communicator.AllReduce(BufferOf(span),
                                    other ? ReduceOp::kMax : ReduceOp::kSum);
  } else if (kind == "type") {
    words.insert(words.end(), {"f32", "i32"});
    status = other ? communicator.AllReduce(BufferOf(absl::MakeSpan(integers)),
                                            ReduceOp::kSum)
                   : communicator.AllReduce(BufferOf(span), ReduceOp::kSum);
  }
  // One that heard nothing in this call hears it in the next.
  if (status.ok()) status = communicator.Barrier();
  SHOAL_RETURN_IF_ERROR(
      ExpectStatus(status, absl::StatusCode::kFailedPrecondition, words));
  return ExpectClosed(member, status);
}

// The culprit calls another collective. Then it may be that all wait for each
// other and no message meets one of another call: that ends at the time-out,
// when the ranks tell each other what they are doing.
SHOAL_RANK_BODY(OtherCollective) {
  Timeouts timeouts = RankContext::SlowBuildTimeouts();
  timeouts.operation = absl::Seconds(3);
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context, timeouts));
  absl::Status status = member.is_culprit ? member.communicator->Barrier()
                                          : member.AllReduce(200);
  if (status.ok()) status = member.communicator->Barrier();
  SHOAL_RETURN_IF_ERROR(
      ExpectStatus(status, absl::StatusCode::kFailedPrecondition,
                   {member.culprit_name, "AllReduce", "Barrier"}));
  return ExpectClosed(member, status);
}

// A broadcast's root hears from nobody: its own call may well succeed.
SHOAL_RANK_BODY(BroadcastMismatch) {
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  std::vector<float> values(200, 1);
  absl::Status status = member.communicator->Broadcast(
      BufferOf(absl::MakeSpan(values).first(member.is_culprit ? 100 : 200)),
      /*root=*/0);
  if (member.is_culprit && status.ok()) {
    return absl::InternalError("a leaf with another count succeeded");
  }
  if (status.ok()) status = member.communicator->Barrier();
  return ExpectStatus(status, absl::StatusCode::kFailedPrecondition,
                      {member.culprit_name, "x 100", "x 200"});
}

// Refused here, nothing sent, nothing closed.
SHOAL_RANK_BODY(BadArguments) {
  SHOAL_ASSIGN_OR_RETURN(Member member, JoinForTrouble(context));
  float value = 0;
  if (member.is_culprit) {
    SHOAL_RETURN_IF_ERROR(
        ExpectStatus(member.communicator->AllReduce({&value, -1, DType::kF32},
                                                    ReduceOp::kSum),
                     absl::StatusCode::kInvalidArgument));
    SHOAL_RETURN_IF_ERROR(ExpectStatus(
        member.communicator->Broadcast({&value, 1, DType::kF32}, 99),
        absl::StatusCode::kInvalidArgument));
    SHOAL_RETURN_IF_ERROR(ExpectStatus(
        member.communicator->Send({&value, 1, DType::kF32}, context.rank),
        absl::StatusCode::kInvalidArgument));
  }
  return member.AllReduce(100);
}

// Every world, and in it the first, the last and one in the middle.
class FailuresTest
    : public ::testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  int world() const { return std::get<0>(GetParam()); }
  int culprit() const {
    const std::string which = std::get<1>(GetParam());
    return which == "first" ? 0 : which == "last" ? world() - 1 : world() / 2;
  }
  WorldOptions options() const { return {.argument = absl::StrCat(culprit())}; }
  WorldOptions with_a_death() const {
    WorldOptions result = options();
    result.killed_by = {{culprit(), SIGKILL}};
    return result;
  }
};

TEST_P(FailuresTest, KilledBeforeAnOperation) {
  EXPECT_TRUE(
      WorldSucceeds("KilledBeforeAnOperation", world(), with_a_death()));
}
TEST_P(FailuresTest, KilledInAnOperation) {
  EXPECT_TRUE(WorldSucceeds("KilledInAnOperation", world(), with_a_death()));
}
TEST_P(FailuresTest, KilledInAMessage) {
  EXPECT_TRUE(WorldSucceeds("KilledInAMessage", world(), with_a_death()));
}
TEST_P(FailuresTest, KilledBetweenOperations) {
  EXPECT_TRUE(
      WorldSucceeds("KilledBetweenOperations", world(), with_a_death()));
}
TEST_P(FailuresTest, KilledWithAForkedChild) {
  EXPECT_TRUE(WorldSucceeds("KilledWithAForkedChild", world(), with_a_death()));
}
TEST_P(FailuresTest, Leaves) {
  EXPECT_TRUE(WorldSucceeds("LeavesInMidOperation", world(), options()));
}
TEST_P(FailuresTest, Aborts) {
  EXPECT_TRUE(WorldSucceeds("Aborts", world(), options()));
}
TEST_P(FailuresTest, Mismatches) {
  for (const char* kind : {"count", "zero", "op", "type"}) {
    EXPECT_TRUE(
        WorldSucceeds("Mismatches", world(),
                      {.argument = absl::StrCat(culprit(), " ", kind)}));
  }
}
TEST_P(FailuresTest, OtherCollective) {
  EXPECT_TRUE(WorldSucceeds("OtherCollective", world(), options()));
}
TEST_P(FailuresTest, BadArguments) {
  EXPECT_TRUE(WorldSucceeds("BadArguments", world(), options()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, FailuresTest,
                         ::testing::Combine(::testing::Values(2, 3, 4, 5, 8),
                                            ::testing::Values("first", "middle",
                                                              "last")),
                         [](const auto& info) {
                           return absl::StrCat("world_",
                                               std::get<0>(info.param), "_",
                                               std::get<1>(info.param));
                         });

TEST(BroadcastMismatchTest, LeafAndRootAreTold) {
  for (const int world : {2, 3, 5, 8}) {
    EXPECT_TRUE(WorldSucceeds("BroadcastMismatch", world,
                              {.argument = absl::StrCat(world - 1)}));
  }
}

// These wait for a time-out of two seconds each.
TEST(TimeoutsTest, AStoppedRankIsSilent) {
  for (const int culprit : {0, 3, 7}) {
    EXPECT_TRUE(WorldSucceeds(
        "Stopped", 8,
        {.argument = absl::StrCat(culprit), .stopped = {culprit}}));
  }
  EXPECT_TRUE(WorldSucceeds("Stopped", 2, {.argument = "1", .stopped = {1}}));
}

TEST(TimeoutsTest, ARankThatIsBehindIsAlive) {
  for (const int culprit : {0, 3, 7}) {
    EXPECT_TRUE(
        WorldSucceeds("OneCallBehind", 8, {.argument = absl::StrCat(culprit)}));
  }
  EXPECT_TRUE(WorldSucceeds("OneCallBehind", 2, {.argument = "1"}));
}

}  // namespace
}  // namespace shoal::tests
