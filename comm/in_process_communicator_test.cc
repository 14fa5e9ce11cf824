// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/in_process_communicator.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/reduce_op.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using World = std::vector<std::unique_ptr<Communicator>>;

World MakeWorld(int world_size, const InProcessOptions& options = {}) {
  absl::StatusOr<World> world =
      InProcessCommunicator::CreateWorld(world_size, options);
  if (!world.ok()) {
    ADD_FAILURE() << world.status();
    return {};
  }
  return *std::move(world);
}

// Runs `body` for every rank at once, each on its own thread.
void OnEveryRank(const World& world,
                 const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& communicator : world) {
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

template <typename T>
Buffer Of(std::vector<T>& values) {
  return BufferOf(absl::MakeSpan(values));
}

// Distinct on every rank and at every element, and small enough that sums over
// eight ranks are exact.
std::vector<std::int64_t> RankData(int rank, std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[i] = (rank + 1) * 1000 + i;
  return values;
}

std::int64_t SumOverRanks(int world_size, std::int64_t i) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < world_size; ++rank) sum += (rank + 1) * 1000 + i;
  return sum;
}

std::vector<std::int64_t> AwkwardCounts(int world_size) {
  return {0, 1, 2, 7, world_size - 1, world_size, world_size + 1, 10007};
}

TEST(InProcessCommunicatorTest, AllReduceSumsEveryRank) {
  for (int world_size = 1; world_size <= 8; ++world_size) {
    const World world = MakeWorld(world_size);
    OnEveryRank(world, [world_size](Communicator& comm) {
      for (const Algorithm algorithm : {Algorithm::kAuto, Algorithm::kRing,
                                        Algorithm::kRecursiveDoubling}) {
        CallOptions options;
        options.algorithm = algorithm;
        for (const std::int64_t count : AwkwardCounts(world_size)) {
          std::vector<std::int64_t> input = RankData(comm.rank(), count);
          std::vector<std::int64_t> output(input.size());
          SHOAL_ASSERT_OK(
              comm.AllReduce(Of(input), Of(output), ReduceOp::kSum, options));
          SHOAL_ASSERT_OK(comm.AllReduce(Of(input), ReduceOp::kSum, options));
          for (std::int64_t i = 0; i < count; ++i) {
            ASSERT_EQ(output[i], SumOverRanks(world_size, i)) << i;
          }
          ASSERT_EQ(input, output);
        }
      }
    });
  }
}

TEST(InProcessCommunicatorTest, PartsGoToAndComeFromTheirRanks) {
  for (int world_size = 1; world_size <= 8; ++world_size) {
    const World world = MakeWorld(world_size);
    OnEveryRank(world, [world_size](Communicator& comm) {
      for (const std::int64_t count : AwkwardCounts(world_size)) {
        std::vector<std::int64_t> whole =
            RankData(comm.rank(), count * world_size);
        std::vector<std::int64_t> part(count);
        SHOAL_ASSERT_OK(
            comm.ReduceScatter(Of(whole), Of(part), ReduceOp::kSum));
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(part[i], SumOverRanks(world_size, comm.rank() * count + i));
        }
        std::vector<std::int64_t> gathered(count * world_size);
        SHOAL_ASSERT_OK(comm.AllGather(Of(part), Of(gathered)));
        for (std::int64_t i = 0; i < count * world_size; ++i) {
          ASSERT_EQ(gathered[i], SumOverRanks(world_size, i));
        }
      }
    });
  }
}

TEST(InProcessCommunicatorTest, BroadcastsFromEveryRoot) {
  for (int world_size = 1; world_size <= 8; ++world_size) {
    const World world = MakeWorld(world_size);
    OnEveryRank(world, [world_size](Communicator& comm) {
      for (int root = 0; root < world_size; ++root) {
        for (const std::int64_t count : AwkwardCounts(world_size)) {
          std::vector<std::int64_t> values = RankData(comm.rank(), count);
          SHOAL_ASSERT_OK(comm.Broadcast(Of(values), root));
          ASSERT_EQ(values, RankData(root, count));
        }
      }
    });
  }
}

TEST(InProcessCommunicatorTest, NobodyLeavesABarrierBeforeAllAreThere) {
  const World world = MakeWorld(5);
  std::atomic<int> entered{0};
  OnEveryRank(world, [&entered](Communicator& comm) {
    for (int round = 1; round <= 50; ++round) {
      entered.fetch_add(1);
      SHOAL_ASSERT_OK(comm.Barrier());
      ASSERT_GE(entered.load(), 5 * round);
    }
  });
}

TEST(InProcessCommunicatorTest, EveryPairExchangesMessagesOfAllSizes) {
  const World world = MakeWorld(4);
  OnEveryRank(world, [](Communicator& comm) {
    const int n = comm.world_size();
    for (const std::int64_t count : {0, 1, 7, 5000, 300000}) {
      for (int shift = 0; shift < n; ++shift) {
        const int to = (comm.rank() + shift) % n;
        const int from = (comm.rank() + n - shift) % n;
        std::vector<std::int64_t> sent = RankData(comm.rank(), count);
        std::vector<std::int64_t> received(count);
        SHOAL_ASSERT_OK(
            comm.SendRecv(Of(sent), to, Of(received), from, /*tag=*/shift));
        ASSERT_EQ(received, RankData(from, count));
      }
    }
  });
}

TEST(InProcessCommunicatorTest, SmallMessagesPassByTag) {
  const World world = MakeWorld(2);
  OnEveryRank(world, [](Communicator& comm) {
    std::vector<std::int64_t> first = {1}, second = {2};
    if (comm.rank() == 0) {
      SHOAL_ASSERT_OK(comm.Send(Of(first), 1, /*tag=*/1));
      SHOAL_ASSERT_OK(comm.Send(Of(second), 1, /*tag=*/2));
    } else {
      std::vector<std::int64_t> received(1);
      SHOAL_ASSERT_OK(comm.Recv(Of(received), 0, /*tag=*/2));
      EXPECT_EQ(received, second);
      SHOAL_ASSERT_OK(comm.Recv(Of(received), 0, /*tag=*/1));
      EXPECT_EQ(received, first);
    }
  });
}

TEST(InProcessCommunicatorTest, MatchingCallsAreDemanded) {
  const World world = MakeWorld(3);
  OnEveryRank(world, [](Communicator& comm) {
    // Rank 2 calls with another count than the others.
    std::vector<std::int64_t> values(comm.rank() == 2 ? 200 : 100);
    EXPECT_THAT(
        comm.AllReduce(Of(values), ReduceOp::kSum),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("AllReduce(i64 x 100"),
                       HasSubstr("AllReduce(i64 x 200"), HasSubstr("rank 2"))));
    // The first error stays.
    EXPECT_THAT(comm.Barrier(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_FALSE(comm.status().ok());
  });
}

TEST(InProcessCommunicatorTest, TimeoutNamesTheRankThatIsBehind) {
  InProcessOptions options;
  options.operation_timeout = absl::Milliseconds(50);
  const World world = MakeWorld(3, options);
  OnEveryRank(world, [](Communicator& comm) {
    std::vector<std::int64_t> values(10);
    if (comm.rank() == 1) return;
    EXPECT_THAT(comm.AllReduce(Of(values), ReduceOp::kSum),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("AllReduce(i64 x 10"), HasSubstr("#1"),
                               HasSubstr("rank 1, alive, last completed #0"))));
  });
  std::vector<std::int64_t> values(10);
  EXPECT_THAT(world[1]->AllReduce(Of(values), ReduceOp::kSum),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

// The counts of AllToAllV differ from rank to rank although the calls match.
TEST(InProcessCommunicatorTest, ATimeoutInUnequalPartsIsNoMismatch) {
  InProcessOptions options;
  options.operation_timeout = absl::Milliseconds(200);
  OnEveryRank(MakeWorld(3, options), [](Communicator& comm) {
    if (comm.rank() == 1) {
      while (comm.status().ok()) std::this_thread::yield();
    }
    std::vector<std::int64_t> input(3 * (comm.rank() + 1));
    std::vector<std::int64_t> output(6);
    const std::vector<std::int64_t> send_counts(3, comm.rank() + 1);
    EXPECT_THAT(comm.AllToAllV(Of(input), send_counts, Of(output), {1, 2, 3}),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("AllToAllV(i64, pairwise) #1"),
                               HasSubstr("rank 1, alive, last completed #0"))));
  });
}

TEST(InProcessCommunicatorTest, LargeSendsToEachOtherTimeOutOnBothSides) {
  InProcessOptions options;
  options.operation_timeout = absl::Milliseconds(50);
  const World world = MakeWorld(2, options);
  OnEveryRank(world, [](Communicator& comm) {
    std::vector<std::int64_t> values(1 << 20);
    EXPECT_THAT(comm.Send(Of(values), 1 - comm.rank()),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("Send(i64 x 1048576 to rank")));
  });
}

TEST(InProcessCommunicatorTest, ARankThatLeavesIsNamed) {
  World world = MakeWorld(3);
  world[1].reset();
  for (const int rank : {0, 2}) {
    std::vector<std::int64_t> values(10);
    EXPECT_THAT(
        world[rank]->AllReduce(Of(values), ReduceOp::kSum),
        StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 left")));
  }
}

TEST(InProcessCommunicatorTest, AMessageToARankThatLeftFails) {
  World world = MakeWorld(2);
  world[1].reset();
  std::vector<std::int64_t> values(1 << 20);
  EXPECT_THAT(
      world[0]->Send(Of(values), 1),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 left")));
}

TEST(InProcessCommunicatorTest, AbortEndsAWaitingCall) {
  const World world = MakeWorld(2);
  std::vector<std::int64_t> values(10);
  std::atomic<bool> entering{false};
  std::thread waiting([&] {
    entering.store(true);
    EXPECT_THAT(world[0]->Recv(Of(values), 1),
                StatusIs(absl::StatusCode::kAborted, "enough"));
  });
  while (!entering.load()) std::this_thread::yield();
  world[1]->Abort(absl::AbortedError("enough"));
  waiting.join();
  world[0]->Abort(absl::InternalError("too late"));
  EXPECT_THAT(world[1]->Barrier(),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST(InProcessCommunicatorTest, ASecondThreadIsRefused) {
  const World world = MakeWorld(2);
  // Whichever thread comes second is refused; the other one waits in its call.
  std::thread waiting([&world] {
    absl::Status status;
    do {
      std::vector<std::int64_t> value(1);
      status = world[0]->Recv(Of(value), 1);
    } while (status.code() == absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  });
  absl::Status status;
  do {
    std::vector<std::int64_t> value(1);
    status = world[0]->Send(Of(value), 1);
    std::this_thread::yield();
  } while (status.ok());
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("another thread")));
  world[0]->Abort(absl::CancelledError("done"));
  waiting.join();
}

TEST(InProcessCommunicatorTest, TinyLinksAndSlicesStillWork) {
  InProcessOptions options;
  options.link_capacity_bytes = 1;
  options.slice_bytes = 1;
  const World world = MakeWorld(3, options);
  OnEveryRank(world, [](Communicator& comm) {
    std::vector<std::int64_t> values = RankData(comm.rank(), 50);
    SHOAL_ASSERT_OK(comm.AllReduce(Of(values), ReduceOp::kSum));
    for (std::int64_t i = 0; i < 50; ++i) {
      ASSERT_EQ(values[i], SumOverRanks(3, i));
    }
  });
}

TEST(InProcessCommunicatorTest, RefusesWorldsThatCannotBe) {
  EXPECT_THAT(InProcessCommunicator::CreateWorld(0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("world_size must be > 0")));
  InProcessOptions options;
  options.slice_bytes = 0;
  EXPECT_THAT(InProcessCommunicator::CreateWorld(2, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  options = {};
  options.operation_timeout = absl::ZeroDuration();
  EXPECT_THAT(InProcessCommunicator::CreateWorld(2, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace shoal
