// SPDX-License-Identifier: Apache-2.0
//
// Whole worlds over loopback, with ranks as threads of this process.

#include "shoal/comm/tcp_communicator.h"

#include <dirent.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/stopwatch.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Joins as `rank` and runs `body`; the communicator is destroyed on the thread.
using Body = std::function<void(Communicator*)>;

TcpOptions Options(int rank, int world_size, const std::string& address) {
  TcpOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.address = address;
  options.job_id = "tcp_communicator_test";
  options.log = [](absl::string_view line) {
    ADD_FAILURE() << "unexpected line: " << line;
  };
  return options;
}

// Runs `body` on every rank of a world, each on a thread.
void RunWorld(int world_size, const Body& body,
              const std::function<void(TcpOptions*)>& change = nullptr) {
  TcpListener listener = TcpListener::Bind("127.0.0.1:0").value();
  const std::string address = listener.address();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    TcpOptions options = Options(rank, world_size, address);
    if (rank == 0) options.listener = std::move(listener);
    if (change) change(&options);
    threads.emplace_back(
        [&body](TcpOptions options) {
          absl::StatusOr<std::unique_ptr<Communicator>> communicator =
              TcpCommunicator::Create(std::move(options));
          ASSERT_TRUE(communicator.ok()) << communicator.status();
          body(communicator->get());
        },
        std::move(options));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TcpCommunicatorTest, AWorldOfOneOpensNothing) {
  const int before = internal::CountGuardedDescriptors();
  SHOAL_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> communicator,
                             TcpCommunicator::Create(Options(0, 1, "")));
  EXPECT_EQ(communicator->world_size(), 1);
  SHOAL_EXPECT_OK(communicator->Barrier());
  EXPECT_EQ(internal::CountGuardedDescriptors(), before);
  EXPECT_THAT(TcpCommunicator::Create(Options(1, 1, "")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank 1 is not in a world of 1")));
}

TEST(TcpCommunicatorTest, CollectivesInAllWorlds) {
  for (int world_size = 2; world_size <= 8; ++world_size) {
    SCOPED_TRACE(world_size);
    RunWorld(world_size, [world_size](Communicator* communicator) {
      const int rank = communicator->rank();
      EXPECT_EQ(communicator->world_size(), world_size);
      for (const std::int64_t count : {0, 1, world_size - 1, 1009, 100003}) {
        std::vector<float> values(count);
        for (std::int64_t i = 0; i < count; ++i) {
          values[i] = static_cast<float>((rank + 1) * (i % 13));
        }
        SHOAL_ASSERT_OK(communicator->AllReduce(
            BufferOf(absl::MakeSpan(values)), ReduceOp::kSum));
        const int ranks = world_size * (world_size + 1) / 2;
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(values[i], static_cast<float>(ranks * (i % 13))) << i;
        }
      }
      SHOAL_ASSERT_OK(communicator->Barrier());
    });
  }
}

TEST(TcpCommunicatorTest, MessagesBetweenAllPairs) {
  for (const int world_size : {2, 3, 5}) {
    SCOPED_TRACE(world_size);
    RunWorld(world_size, [world_size](Communicator* communicator) {
      const int rank = communicator->rank();
      // Small ones, and one that waits for its receive.
      for (const std::int64_t count : {1, 1000, 300000}) {
        for (int shift = 1; shift < world_size; ++shift) {
          const int to = (rank + shift) % world_size;
          const int from = (rank + world_size - shift) % world_size;
          std::vector<std::int32_t> sent(count);
          std::iota(sent.begin(), sent.end(), rank * 1000);
          std::vector<std::int32_t> got(count, -1);
          SHOAL_ASSERT_OK(communicator->SendRecv(
              BufferOf(absl::MakeConstSpan(sent)), to,
              BufferOf(absl::MakeSpan(got)), from, shift));
          ASSERT_EQ(got.front(), from * 1000);
          ASSERT_EQ(got.back(), from * 1000 + count - 1);
        }
      }
    });
  }
}

TEST(TcpCommunicatorTest, ThePolicyOfRankZeroRules) {
  // One half of the ranks would go by the ring, and the other would not.
  RunWorld(
      4,
      [](Communicator* communicator) {
        std::vector<float> values(1000, 1.0f);
        SHOAL_ASSERT_OK(communicator->AllReduce(
            BufferOf(absl::MakeSpan(values)), ReduceOp::kSum));
        EXPECT_EQ(values[999], 4.0f);
      },
      [](TcpOptions* options) {
        SHOAL_ASSERT_OK(OverrideAlgorithms(
            options->rank % 2 == 0 ? "ring" : "recursive-doubling",
            &options->algorithm_policy));
      });
}

TEST(TcpCommunicatorTest, AbortReachesAllWithItsReason) {
  RunWorld(4, [](Communicator* communicator) {
    SHOAL_ASSERT_OK(communicator->Barrier());
    // Rank 2 aborts once it has heard that all others have left the barrier.
    std::uint8_t token = 0;
    const Buffer one = {&token, 1, DType::kU8};
    if (communicator->rank() == 2) {
      for (const int other : {0, 1, 3}) {
        SHOAL_ASSERT_OK(communicator->Recv(one, other));
      }
      communicator->Abort(absl::CancelledError("the user lost patience"));
    } else {
      // Which may be before this has returned.
      communicator->Send(one, 2).IgnoreError();
    }
    // The others are in a call that can never be done.
    const absl::Status status = communicator->rank() == 2
                                    ? communicator->status()
                                    : communicator->Barrier();
    const auto expected = StatusIs(absl::StatusCode::kCancelled,
                                   HasSubstr("the user lost patience"));
    EXPECT_THAT(status, expected);
    EXPECT_THAT(communicator->Barrier(), expected);
  });
}

TEST(TcpCommunicatorTest, DisagreementIsToldToAll) {
  RunWorld(3, [](Communicator* communicator) {
    std::vector<float> values(communicator->rank() == 1 ? 200 : 100);
    EXPECT_THAT(communicator->AllReduce(BufferOf(absl::MakeSpan(values)),
                                        ReduceOp::kSum),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("100"), HasSubstr("200"))));
  });
}

TEST(TcpCommunicatorTest, ATimeoutNamesTheRankThatDidNotCome) {
  RunWorld(3, [](Communicator* communicator) {
    SHOAL_ASSERT_OK(communicator->Barrier());
    CallOptions options;
    options.timeout = absl::Milliseconds(100);
    const absl::Status status = communicator->rank() == 1
                                    ? absl::OkStatus()
                                    : communicator->Barrier(options);
    if (communicator->rank() == 1) {
      while (communicator->status().ok()) std::this_thread::yield();
    }
    EXPECT_THAT(communicator->rank() == 1 ? communicator->Barrier() : status,
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("rank 1"), HasSubstr("alive"),
                               HasSubstr("last completed #1"))));
  });
}

// The one that leaves does not wait for those that stay, and what it has sent
// arrives; whoever needs it afterwards hears that it left.
TEST(TcpCommunicatorTest, ARankThatLeavesIsMissedOnlyWhenNeeded) {
  TcpListener listener = TcpListener::Bind("127.0.0.1:0").value();
  const std::string address = listener.address();
  std::unique_ptr<Communicator> stays;
  std::thread other([&] {
    TcpOptions options = Options(0, 2, address);
    options.listener = std::move(listener);
    stays = TcpCommunicator::Create(std::move(options)).value();
  });
  std::vector<std::int32_t> sent(3000);
  std::iota(sent.begin(), sent.end(), 5);
  {
    const std::unique_ptr<Communicator> leaves =
        TcpCommunicator::Create(Options(1, 2, address)).value();
    SHOAL_ASSERT_OK(leaves->Send(BufferOf(absl::MakeConstSpan(sent)), 0, 7));
    other.join();
  }
  std::vector<std::int32_t> got(3000);
  SHOAL_ASSERT_OK(stays->Recv(BufferOf(absl::MakeSpan(got)), 1, 7));
  EXPECT_EQ(got, sent);
  EXPECT_THAT(stays->Barrier(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 1"), HasSubstr("left"))));
}

TEST(TcpCommunicatorTest, WorldsOfOneProcessAreIndependent) {
  std::thread failing([] {
    RunWorld(3, [](Communicator* communicator) {
      communicator->Abort(absl::AbortedError("this world only"));
      EXPECT_THAT(communicator->Barrier(),
                  StatusIs(absl::StatusCode::kAborted));
    });
  });
  RunWorld(3, [](Communicator* communicator) {
    for (int i = 0; i < 100; ++i) {
      SHOAL_ASSERT_OK(communicator->Barrier());
    }
  });
  failing.join();
}

int CountEntries(const char* directory) {
  int count = 0;
  DIR* const listing = opendir(directory);
  while (readdir(listing) != nullptr) ++count;
  closedir(listing);
  return count;
}

// Whether the kernel still lists thread `id` of this process: for a moment it
// does so with one that has been joined.
bool IsListed(pid_t id) {
  return access(absl::StrCat("/proc/self/task/", id).c_str(), F_OK) == 0;
}

// Threads of this process that are there before any world. A sanitizer starts
// one of its own with the first thread of the program.
int CountThreadsAtStart() {
  pid_t id = 0;
  std::thread([&id] { id = gettid(); }).join();
  while (IsListed(id)) std::this_thread::yield();
  return CountEntries("/proc/self/task");
}

const int kThreadsAtStart = CountThreadsAtStart();

TEST(TcpCommunicatorTest, HundredsOfWorldsLeaveNothingBehind) {
  const auto one_world = [](int i) {
    RunWorld(2, [i](Communicator* communicator) {
      const std::int32_t sent = communicator->rank();
      std::int32_t got = -1;
      if (i % 2 == 0) {
        SHOAL_ASSERT_OK(communicator->Barrier());
      }
      if (i % 5 == 0) {
        SHOAL_ASSERT_OK(communicator->SendRecv(
            {&sent, 1, DType::kI32}, 1 - communicator->rank(),
            {&got, 1, DType::kI32}, 1 - communicator->rank()));
        EXPECT_EQ(got, 1 - communicator->rank());
      }
    });
  };
  one_world(0);
  const int descriptors = CountEntries("/proc/self/fd");
  for (int i = 0; i < 300; ++i) {
    one_world(i);
    ASSERT_EQ(CountEntries("/proc/self/fd"), descriptors) << "world " << i;
  }
  // As IsListed() says.
  const Stopwatch stopwatch;
  while (CountEntries("/proc/self/task") != kThreadsAtStart &&
         stopwatch.Elapsed() < absl::Minutes(1)) {
    std::this_thread::yield();
  }
  EXPECT_EQ(CountEntries("/proc/self/task"), kThreadsAtStart);
  EXPECT_EQ(internal::CountGuardedDescriptors(), 0);
}

// A child forked by a rank lives on when that rank's communicator is gone, and
// keeps nobody waiting.
TEST(TcpCommunicatorTest, AForkedChildKeepsNoConnectionOpen) {
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  pid_t child = -1;
  RunWorld(2, [&](Communicator* communicator) {
    SHOAL_ASSERT_OK(communicator->Barrier());
    if (communicator->rank() == 1) {
      child = fork();
      if (child == 0) {
        char byte;
        close(gate[1]);
        _exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
      }
      return;
    }
    EXPECT_THAT(communicator->Barrier(),
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(HasSubstr("rank 1"), HasSubstr("left"))));
  });
  close(gate[0]);
  close(gate[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace shoal
