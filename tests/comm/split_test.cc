// SPDX-License-Identifier: Apache-2.0
//
// `Split` between processes: groups of every shape, several at once and from
// several threads, many of them one after the other, and one failure domain.

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
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
#include "shoal/comm/grid_communicators.h"
#include "shoal/comm/pending_operation.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/partition/rank_grid.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/shared_counters.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

using Values = std::vector<std::int64_t>;

Buffer Of(Values& values) { return BufferOf(absl::MakeSpan(values)); }

absl::Status Expect(bool holds, absl::string_view what) {
  return holds ? absl::OkStatus() : absl::InternalError(what);
}

// Uses everything that a group has: `members` are the world's ranks that it
// should have, in order.
absl::Status Use(Communicator& group, const std::vector<int>& members,
                 int world_rank) {
  const int size = static_cast<int>(members.size());
  SHOAL_RETURN_IF_ERROR(
      Expect(group.world_size() == size && members[group.rank()] == world_rank,
             absl::StrCat("rank ", group.rank(), " of ", group.world_size())));
  std::int64_t sum = 0;
  for (const int member : members) sum += member;
  for (const std::int64_t count : {1, 1000, 100'000}) {
    Values values(count, world_rank);
    SHOAL_RETURN_IF_ERROR(group.AllReduce(Of(values), ReduceOp::kSum));
    SHOAL_RETURN_IF_ERROR(
        Expect(values[count - 1] == sum, "the sum over the group is wrong"));
    const int next = (group.rank() + 1) % size;
    const int previous = (group.rank() + size - 1) % size;
    Values out(count, world_rank);
    Values in(count, -1);
    SHOAL_RETURN_IF_ERROR(group.SendRecv(Of(out), next, Of(in), previous));
    SHOAL_RETURN_IF_ERROR(Expect(in[count - 1] == members[previous],
                                 "the message is not the neighbour's"));
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(Groups) {
  SHOAL_ASSIGN_OR_RETURN(auto comm, context.Join());
  const int rank = context.rank;
  const int world = context.world_size;
  for (const int modulus : {1, 2, 3}) {
    // Backwards, and the last rank of the world in no group.
    const bool out = modulus == 3 && rank == world - 1;
    SHOAL_ASSIGN_OR_RETURN(const auto group,
                           comm->Split(out ? -5 : rank % modulus, -rank));
    if (out) {
      SHOAL_RETURN_IF_ERROR(Expect(group == nullptr, "not in no group"));
      continue;
    }
    std::vector<int> members;
    for (int r = world - 1; r >= 0; --r) {
      if (r % modulus == rank % modulus && !(modulus == 3 && r == world - 1)) {
        members.push_back(r);
      }
    }
    SHOAL_RETURN_IF_ERROR(Use(*group, members, rank));
  }
  // A group outlives the world's communicator, and nobody has left before.
  SHOAL_ASSIGN_OR_RETURN(const auto all, comm->Split(0, 0));
  comm = nullptr;
  std::vector<int> everyone;
  for (int r = 0; r < world; ++r) everyone.push_back(r);
  return Use(*all, everyone, rank);
}

// Every rank uses its three groups from three threads at once.
SHOAL_RANK_BODY(Grid) {
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  SHOAL_ASSIGN_OR_RETURN(const RankGrid grid, RankGrid::Create(2, 2, 2));
  SHOAL_ASSIGN_OR_RETURN(const GridCommunicators groups,
                         SplitByGrid(comm.get(), grid));
  struct Axis {
    GridAxis axis;
    Communicator* group;
    absl::Status status;
  };
  std::vector<Axis> axes = {{GridAxis::kTensor, groups.tensor.get(), {}},
                            {GridAxis::kData, groups.data.get(), {}},
                            {GridAxis::kPipeline, groups.pipeline.get(), {}}};
  std::vector<std::thread> threads;
  for (Axis& axis : axes) {
    threads.emplace_back([&axis, &grid, &context] {
      const std::vector<int> members =
          grid.Group(axis.axis, context.rank).value();
      for (int round = 0; round < 10 && axis.status.ok(); ++round) {
        axis.status = Use(*axis.group, members, context.rank);
      }
    });
  }
  absl::Status status = comm->Barrier();
  for (std::thread& thread : threads) thread.join();
  for (const Axis& axis : axes) status.Update(axis.status);
  return status;
}

// The rank that dies is in another group, and nobody waits for it.
SHOAL_RANK_BODY(DeathOutsideTheGroup) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  SHOAL_ASSIGN_OR_RETURN(const auto group, comm->Split(context.rank / 2, 0));
  if (context.rank == 3) {
    SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, 3));
    raise(SIGKILL);
  }
  counters[0].fetch_add(1);
  const Stopwatch stopwatch;
  Values values(3);
  CallOptions patient;
  patient.timeout = absl::InfiniteDuration();
  SHOAL_RETURN_IF_ERROR(
      ExpectStatus(group->Recv(Of(values), 1 - group->rank(), 0, patient),
                   absl::StatusCode::kUnavailable, {"rank 3"}));
  return Expect(stopwatch.Elapsed() < absl::Seconds(10) * TimeoutScale(),
                "it took long to notice the death");
}

// Rank 2 never splits.
SHOAL_RANK_BODY(OneDoesNotSplit) {
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  SHOAL_RETURN_IF_ERROR(comm->Barrier());
  CallOptions soon;
  soon.timeout = absl::Milliseconds(300) * TimeoutScale();
  if (context.rank == 2) {
    while (comm->status().ok()) std::this_thread::yield();
    return ExpectStatus(comm->status(), absl::StatusCode::kDeadlineExceeded);
  }
  return ExpectStatus(comm->Split(0, 0, soon).status(),
                      absl::StatusCode::kDeadlineExceeded,
                      {"rank 2", "alive, last completed #1"});
}

int CountEntries(const char* directory) {
  DIR* const dir = opendir(directory);
  int count = 0;
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

std::int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

SHOAL_RANK_BODY(ManyOneAfterTheOther) {
  int rounds = 0;
  if (!absl::SimpleAtoi(context.argument, &rounds)) rounds = 1;
  SHOAL_ASSIGN_OR_RETURN(const auto comm, context.Join());
  int descriptors = 0;
  int threads = 0;
  std::int64_t resident = 0;
  const auto once = [&](int round) -> absl::Status {
    SHOAL_ASSIGN_OR_RETURN(
        auto group,
        comm->Split(0, round % 2 == 0 ? comm->rank() : -comm->rank()));
    Values out(10, group->rank());
    Values in(10);
    const int size = group->world_size();
    SHOAL_ASSIGN_OR_RETURN(PendingOperation barrier, group->StartBarrier());
    SHOAL_RETURN_IF_ERROR(group->SendRecv(Of(out), (group->rank() + 1) % size,
                                          Of(in),
                                          (group->rank() + size - 1) % size));
    return barrier.Wait();
  };
  // The allocator and the kernel's tables have grown by then.
  const int warm_up = rounds / 4;
  for (int round = 0; round < rounds; ++round) {
    SHOAL_RETURN_IF_ERROR(once(round));
    if (round != warm_up) continue;
    SHOAL_RETURN_IF_ERROR(comm->Barrier());
    descriptors = CountEntries("/proc/self/fd");
    threads = CountEntries("/proc/self/task");
    resident = ResidentBytes();
  }
  SHOAL_RETURN_IF_ERROR(comm->Barrier());
  SHOAL_RETURN_IF_ERROR(
      Expect(CountEntries("/proc/self/fd") == descriptors,
             absl::StrCat("descriptors: ", descriptors, " after ", warm_up,
                          ", then ", CountEntries("/proc/self/fd"))));
  SHOAL_RETURN_IF_ERROR(Expect(CountEntries("/proc/self/task") == threads,
                               absl::StrCat("threads: ", threads, ", then ",
                                            CountEntries("/proc/self/task"))));
  const std::int64_t grown = ResidentBytes() - resident;
  // One group's engine and buffers alone have tens of KiB.
  const std::int64_t bound = TimeoutScale() > 1 ? 64 << 20 : 4 << 20;
  return Expect(grown < bound,
                absl::StrCat("memory has grown by ", grown, " bytes"));
}

class SplitWorldsTest : public testing::TestWithParam<int> {};

TEST_P(SplitWorldsTest, Groups) {
  EXPECT_TRUE(WorldSucceeds("Groups", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, SplitWorldsTest, testing::Range(1, 9));

TEST(SplitTest, GridsFromThreads) { EXPECT_TRUE(WorldSucceeds("Grid", 8)); }

TEST(SplitTest, ADeathOutsideAGroupFailsIt) {
  WorldOptions options;
  options.killed_by = {{3, SIGKILL}};
  EXPECT_TRUE(WorldSucceeds("DeathOutsideTheGroup", 4, options));
}

TEST(SplitTest, ARankThatDoesNotSplitIsNamed) {
  EXPECT_TRUE(WorldSucceeds("OneDoesNotSplit", 4));
}

TEST(SplitTest, NothingGrows) {
  WorldOptions options;
  options.argument = TimeoutScale() > 1 ? "100" : "1000";
  EXPECT_TRUE(WorldSucceeds("ManyOneAfterTheOther", 3, options));
}

}  // namespace
}  // namespace shoal::tests
