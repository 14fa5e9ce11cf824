// SPDX-License-Identifier: Apache-2.0
//
// Handles, on communicators whose ranks are threads of this process: under
// ThreadSanitizer this shows that threads may wait, test, abort and destroy as
// the contract says.

#include "shoal/comm/pending_operation.h"

#include <atomic>
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
#include "shoal/comm/buffer.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/in_process_communicator.h"
#include "shoal/comm/reduce_op.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

using World = std::vector<std::unique_ptr<Communicator>>;

World MakeWorld(int world_size) {
  return InProcessCommunicator::CreateWorld(world_size).value();
}

void OnEveryRank(const World& world,
                 const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& communicator : world) {
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

Buffer Of(std::vector<std::int64_t>& values) {
  return BufferOf(absl::MakeSpan(values));
}

CallOptions Patient() {
  CallOptions options;
  options.timeout = absl::InfiniteDuration();
  return options;
}

// Many times the operation that rank r starts with r + 1 in every element.
std::int64_t SumOfRanks(int world_size) {
  return world_size * (world_size + 1) / 2;
}

TEST(PendingOperationTest, OneWithoutAnOperationIsDone) {
  PendingOperation nothing;
  EXPECT_TRUE(nothing.Test());
  EXPECT_THAT(nothing.Wait(), StatusIs(absl::StatusCode::kFailedPrecondition));
  PendingOperation done(absl::OkStatus());
  PendingOperation moved = std::move(done);
  SHOAL_EXPECT_OK(moved.Wait());
  SHOAL_EXPECT_OK(moved.Wait());
  EXPECT_FALSE(done.Wait().ok());  // NOLINT: what a moved-from one says
}

// The results are waited for in another order than that of the starts.
TEST(PendingOperationTest, AllKindsAtOnce) {
  for (int world_size = 1; world_size <= 8; ++world_size) {
    const World world = MakeWorld(world_size);
    OnEveryRank(world, [world_size](Communicator& comm) {
      for (const std::int64_t count : {0, 1, 7, 10007}) {
        const std::int64_t mine = comm.rank() + 1;
        const int next = (comm.rank() + 1) % world_size;
        const int previous = (comm.rank() + world_size - 1) % world_size;
        std::vector<std::int64_t> reduced(count, mine);
        std::vector<std::int64_t> whole(count * world_size, mine);
        std::vector<std::int64_t> part(count);
        std::vector<std::int64_t> gathered(count * world_size);
        std::vector<std::int64_t> told(count, comm.rank() == 0 ? 42 : 0);
        std::vector<std::int64_t> received(count);
        std::vector<std::int64_t> sent(count, mine);
        std::vector<std::int64_t> exchanged(count);
        // The root is the last rank; in place where others' buffers are not
        // looked at.
        const int last = world_size - 1;
        std::vector<std::int64_t> rooted(count, mine);
        std::vector<std::int64_t> collected(count * world_size);
        std::vector<std::int64_t> dealt(count * world_size, 3);
        std::vector<std::int64_t> hand(count);
        std::vector<std::int64_t> swapped(count * world_size, mine);
        std::vector<std::int64_t> apart(count, mine);
        std::vector<std::int64_t> too(2, mine);
        std::vector<std::int64_t> varied(count * world_size);
        const std::vector<std::int64_t> counts(world_size, count);
        std::vector<PendingOperation> operations;
        const auto add =
            [&operations](absl::StatusOr<PendingOperation> started) {
              SHOAL_ASSERT_OK(started);
              operations.push_back(*std::move(started));
            };
        add(comm.StartAllReduce(Of(reduced), ReduceOp::kSum));
        add(comm.StartReduceScatter(Of(whole), Of(part), ReduceOp::kSum));
        add(comm.StartAllGather(Of(sent), Of(gathered)));
        add(comm.StartBroadcast(Of(told), 0));
        add(comm.StartBarrier());
        add(comm.StartReduce(Of(rooted), ReduceOp::kSum, last));
        add(comm.StartGather(Of(sent), Of(collected), last));
        add(comm.StartScatter(Of(dealt), Of(hand), last));
        add(comm.StartAllToAll(Of(swapped), Of(swapped)));
        add(comm.StartAllReduceCoalesced({Of(apart), Of(too)}, ReduceOp::kSum));
        add(comm.StartAllGatherV(Of(sent), Of(varied), counts));
        if (world_size > 1) {
          add(comm.StartRecv(Of(received), previous, 5));
          add(comm.StartSend(Of(sent), next, 5));
        }
        add(comm.StartSendRecv(Of(sent), next, Of(exchanged), previous, 6));
        // A blocking call among them.
        SHOAL_ASSERT_OK(comm.Barrier());
        while (!operations.empty()) {
          SHOAL_ASSERT_OK(operations.back().Wait());
          EXPECT_TRUE(operations.back().Test());
          operations.pop_back();
        }
        ASSERT_EQ(too[1], SumOfRanks(world_size));
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(apart[i], SumOfRanks(world_size));
          ASSERT_EQ(hand[i], 3);
          if (comm.rank() == last) {
            ASSERT_EQ(rooted[i], SumOfRanks(world_size));
          }
          ASSERT_EQ(reduced[i], SumOfRanks(world_size));
          ASSERT_EQ(part[i], SumOfRanks(world_size));
          ASSERT_EQ(told[i], 42);
          ASSERT_EQ(exchanged[i], previous + 1);
          if (world_size > 1) {
            ASSERT_EQ(received[i], previous + 1);
          }
          for (int rank = 0; rank < world_size; ++rank) {
            ASSERT_EQ(gathered[rank * count + i], rank + 1);
            ASSERT_EQ(swapped[rank * count + i], rank + 1);
            ASSERT_EQ(varied[rank * count + i], rank + 1);
            if (comm.rank() == last) {
              ASSERT_EQ(collected[rank * count + i], rank + 1);
            }
          }
        }
      }
    });
  }
}

TEST(PendingOperationTest, TestingIsEnough) {
  const World world = MakeWorld(3);
  OnEveryRank(world, [](Communicator& comm) {
    for (int round = 0; round < 50; ++round) {
      std::vector<std::int64_t> values(1000, comm.rank() + 1);
      SHOAL_ASSERT_OK_AND_ASSIGN(
          PendingOperation sum,
          comm.StartAllReduce(Of(values), ReduceOp::kSum));
      while (!sum.Test()) std::this_thread::yield();
      ASSERT_EQ(values[999], SumOfRanks(3));
    }
  });
}

// Rank 0 waits for nothing, and the others need it.
TEST(PendingOperationTest, GoesOnWhileNobodyWaits) {
  const World world = MakeWorld(4);
  std::atomic<int> done{0};
  OnEveryRank(world, [&done](Communicator& comm) {
    std::vector<std::int64_t> values(200'000, comm.rank() + 1);
    SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation sum,
                               comm.StartAllReduce(Of(values), ReduceOp::kSum));
    if (comm.rank() == 0) {
      while (done.load() < 3) std::this_thread::yield();
    }
    SHOAL_EXPECT_OK(sum.Wait());
    ASSERT_EQ(values[123'456], SumOfRanks(4));
    done.fetch_add(1);
  });
}

// Each handle of a rank has waiters of its own, and the caller goes on calling.
TEST(PendingOperationTest, ManyThreadsWaitWhileCallsGoOn) {
  constexpr int kRounds = 30;
  const World world = MakeWorld(3);
  OnEveryRank(world, [](Communicator& comm) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::vector<std::int64_t>> values(
          4, std::vector<std::int64_t>(5000, comm.rank() + 1));
      std::vector<PendingOperation> sums;
      for (auto& v : values) {
        SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation sum,
                                   comm.StartAllReduce(Of(v), ReduceOp::kSum));
        sums.push_back(std::move(sum));
      }
      std::vector<std::thread> waiters;
      for (std::size_t i = 0; i < 2 * sums.size(); ++i) {
        waiters.emplace_back([&sums, i] {
          if (i % 3 == 0) {
            while (!sums[i / 2].Test()) std::this_thread::yield();
          }
          SHOAL_EXPECT_OK(sums[i / 2].Wait());
        });
      }
      SHOAL_EXPECT_OK(comm.Barrier());
      std::vector<std::int64_t> more(10, comm.rank() + 1);
      SHOAL_EXPECT_OK(comm.AllReduce(Of(more), ReduceOp::kSum));
      for (std::thread& waiter : waiters) waiter.join();
      for (const auto& v : values) ASSERT_EQ(v[4999], SumOfRanks(3));
    }
  });
}

// Large messages to each other: blocking ones would wait for ever.
TEST(PendingOperationTest, BothSidesSendFirst) {
  const World world = MakeWorld(2);
  OnEveryRank(world, [](Communicator& comm) {
    const int other = 1 - comm.rank();
    std::vector<std::int64_t> out(300'000, comm.rank());
    std::vector<std::int64_t> in(300'000, -1);
    SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation send,
                               comm.StartSend(Of(out), other));
    SHOAL_ASSERT_OK(comm.Recv(Of(in), other));
    SHOAL_ASSERT_OK(send.Wait());
    EXPECT_EQ(in[299'999], other);
  });
}

TEST(PendingOperationTest, ASecondCallerIsRefusedAndWaitersAreNot) {
  const World world = MakeWorld(2);
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation barrier,
                             world[0]->StartBarrier(Patient()));
  std::thread waiter([&barrier] {
    EXPECT_THAT(barrier.Wait(), StatusIs(absl::StatusCode::kAborted));
  });
  // Either of the two callers may find the other one in a call.
  std::thread caller([&world] {
    absl::Status status;
    do {
      status = world[0]->Barrier(Patient());
    } while (absl::IsFailedPrecondition(status));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted));
  });
  std::vector<PendingOperation> started;
  while (true) {
    absl::StatusOr<PendingOperation> another =
        world[0]->StartBarrier(Patient());
    if (!another.ok()) {
      EXPECT_THAT(another, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("another thread")));
      break;
    }
    started.push_back(*std::move(another));
    std::this_thread::yield();
  }
  world[0]->Abort(absl::AbortedError("enough"));
  caller.join();
  waiter.join();
}

TEST(PendingOperationTest, AbortEndsAllOnAllRanks) {
  const World world = MakeWorld(3);
  std::vector<PendingOperation> operations;
  for (const int rank : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation barrier,
                                 world[rank]->StartBarrier(Patient()));
      operations.push_back(std::move(barrier));
    }
  }
  std::vector<std::thread> waiters;
  for (std::size_t i = 1; i < operations.size(); ++i) {
    waiters.emplace_back([&operations, i] {
      EXPECT_THAT(operations[i].Wait(),
                  StatusIs(absl::StatusCode::kAborted, "enough"));
    });
  }
  world[2]->Abort(absl::AbortedError("enough"));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_THAT(operations[0].Wait(),
              StatusIs(absl::StatusCode::kAborted, "enough"));
  EXPECT_THAT(world[1]->StartBarrier(),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST(PendingOperationTest, DestroyingAHandleWaitsForItsOperation) {
  const World world = MakeWorld(2);
  std::vector<std::int64_t> values(3, 1);
  std::thread peer;
  {
    SHOAL_ASSERT_OK_AND_ASSIGN(
        const PendingOperation sum,
        world[0]->StartAllReduce(Of(values), ReduceOp::kSum));
    peer = std::thread([&world] {
      std::vector<std::int64_t> others(3, 2);
      SHOAL_EXPECT_OK(world[1]->AllReduce(Of(others), ReduceOp::kSum));
    });
  }
  EXPECT_EQ(values, std::vector<std::int64_t>(3, 3));
  peer.join();
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation end, world[0]->StartBarrier());
  SHOAL_EXPECT_OK(world[1]->Barrier());
  SHOAL_EXPECT_OK(end.Wait());
}

TEST(PendingOperationTest, DestroyingAHandleWaitsAtMostToItsTimeout) {
  const World world = MakeWorld(2);
  CallOptions soon;
  soon.timeout = absl::Milliseconds(20);
  { const auto barrier = world[0]->StartBarrier(soon).value(); }
  EXPECT_THAT(world[1]->Barrier(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 1, alive, last completed #0")));
}

// The communicator goes while another thread waits for one of its operations.
TEST(PendingOperationTest, DestroyingTheCommunicatorAborts) {
  for (int round = 0; round < 20; ++round) {
    World world = MakeWorld(2);
    SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation first,
                               world[0]->StartBarrier(Patient()));
    SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation second,
                               world[0]->StartBarrier(Patient()));
    std::thread waiter([&first] {
      EXPECT_THAT(first.Wait(), StatusIs(absl::StatusCode::kCancelled,
                                         HasSubstr("rank 0 destroyed")));
    });
    world[0] = nullptr;
    EXPECT_TRUE(second.Test());
    EXPECT_THAT(second.Wait(), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_THAT(world[1]->Barrier(), StatusIs(absl::StatusCode::kCancelled));
    waiter.join();
  }
}

// Nobody waits for the one that is late, and another is waited for.
TEST(PendingOperationTest, EachHasItsOwnDeadline) {
  const World world = MakeWorld(2);
  CallOptions soon;
  soon.timeout = absl::Milliseconds(20);
  std::vector<std::int64_t> values(3);
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation late,
                             world[0]->StartRecv(Of(values), 1, 9, soon));
  EXPECT_THAT(world[0]->Barrier(Patient()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("Recv(i64 x 3 from rank 1, tag 9)")));
  EXPECT_TRUE(late.Test());
}

TEST(PendingOperationTest, ARecvFromARankThatLeftEndsSoon) {
  World world = MakeWorld(3);
  std::vector<std::int64_t> values(3);
  SHOAL_ASSERT_OK_AND_ASSIGN(PendingOperation recv,
                             world[0]->StartRecv(Of(values), 1, 0, Patient()));
  world[1] = nullptr;
  EXPECT_THAT(recv.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                    HasSubstr("rank 1 left")));
}

// What a rank sent before it left is received all the same.
TEST(PendingOperationTest, AMessageOfARankThatLeftIsReceived) {
  for (int round = 0; round < 100; ++round) {
    World world = MakeWorld(2);
    std::thread sender([&world] {
      std::vector<std::int64_t> out(3, 7);
      SHOAL_EXPECT_OK(world[1]->Send(Of(out), 0));
      world[1] = nullptr;
    });
    std::vector<std::int64_t> in(3);
    SHOAL_EXPECT_OK(world[0]->Recv(Of(in), 1));
    EXPECT_EQ(in[2], 7);
    sender.join();
  }
}

}  // namespace
}  // namespace shoal
