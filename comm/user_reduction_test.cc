// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/user_reduction.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/in_process_communicator.h"
#include "shoal/comm/reduce_op.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Elements are maps x -> factor * x + offset modulo 2^32, the factor in the
// upper half. Applying one after the other is associative and not commutative.
std::int64_t Compose(std::int64_t first, std::int64_t second) {
  const std::uint32_t f1 = static_cast<std::uint64_t>(first) >> 32;
  const std::uint32_t o1 = static_cast<std::uint32_t>(first);
  const std::uint32_t f2 = static_cast<std::uint64_t>(second) >> 32;
  const std::uint32_t o2 = static_cast<std::uint32_t>(second);
  return static_cast<std::int64_t>(std::uint64_t{f1 * f2} << 32 |
                                   std::uint64_t{o1 * f2 + o2});
}

const UserReduction kCompose = [](const void* first, const void* second,
                                  void* out, std::int64_t count) {
  const auto* const a = static_cast<const std::int64_t*>(first);
  const auto* const b = static_cast<const std::int64_t*>(second);
  auto* const c = static_cast<std::int64_t*>(out);
  for (std::int64_t i = 0; i < count; ++i) c[i] = Compose(a[i], b[i]);
};

std::int64_t InputOf(int rank, std::int64_t i) {
  return (std::int64_t{rank} * 2 + 3) << 32 | (i * 7 + rank * 101 + 1);
}

std::vector<std::int64_t> Input(int rank, std::int64_t count) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(InputOf(rank, i));
  return values;
}

// The inputs of all ranks from `first` on, modulo the world.
std::int64_t FoldFrom(int first, int world_size, std::int64_t i) {
  std::int64_t value = InputOf(first % world_size, i);
  for (int r = 1; r < world_size; ++r) {
    value = Compose(value, InputOf((first + r) % world_size, i));
  }
  return value;
}

Buffer Of(std::vector<std::int64_t>& values) {
  return BufferOf(absl::MakeSpan(values));
}

void OnEveryRank(int world_size,
                 const std::function<void(Communicator&)>& body) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const std::vector<std::unique_ptr<Communicator>> world,
      InProcessCommunicator::CreateWorld(world_size, {}));
  std::vector<std::thread> threads;
  for (const auto& communicator : world) {
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(UserReductionTest, RecursiveDoublingKeepsTheOrderOfTheRanks) {
  CallOptions options;
  options.user_reduction = &kCompose;
  options.algorithm = Algorithm::kRecursiveDoubling;
  for (int n = 1; n <= 8; ++n) {
    OnEveryRank(n, [&](Communicator& comm) {
      for (const std::int64_t count : {0, 1, 7, n - 1, 1009}) {
        std::vector<std::int64_t> values = Input(comm.rank(), count);
        SHOAL_ASSERT_OK(comm.AllReduce(Of(values), ReduceOp::kUser, options));
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(values[i], FoldFrom(0, n, i)) << n << " " << i;
        }
      }
    });
  }
}

TEST(UserReductionTest, ARingStartsAtTheRankAfterThePart) {
  CallOptions options;
  options.user_reduction = &kCompose;
  options.algorithm = Algorithm::kRing;
  for (int n = 1; n <= 8; ++n) {
    OnEveryRank(n, [&](Communicator& comm) {
      for (const std::int64_t part : {0, 1, 7, 509}) {
        std::vector<std::int64_t> values = Input(comm.rank(), part * n);
        std::vector<std::int64_t> output(part);
        SHOAL_ASSERT_OK(comm.ReduceScatter(Of(values), Of(output),
                                           ReduceOp::kUser, options));
        SHOAL_ASSERT_OK(comm.AllReduce(Of(values), ReduceOp::kUser, options));
        for (std::int64_t i = 0; i < part * n; ++i) {
          const int owner = static_cast<int>(i / part);
          const std::int64_t expected = FoldFrom(owner + 1, n, i);
          ASSERT_EQ(values[i], n == 1 ? InputOf(0, i) : expected);
          if (owner == comm.rank()) {
            ASSERT_EQ(output[i % part], n == 1 ? InputOf(0, i) : expected);
          }
        }
      }
    });
  }
}

TEST(UserReductionTest, RanksThatReduceOtherwiseAreToldSo) {
  OnEveryRank(2, [](Communicator& comm) {
    std::vector<std::int64_t> values = Input(comm.rank(), 10);
    CallOptions options;
    options.algorithm = Algorithm::kRing;
    if (comm.rank() == 1) options.user_reduction = &kCompose;
    EXPECT_THAT(
        comm.AllReduce(Of(values),
                       comm.rank() == 1 ? ReduceOp::kUser : ReduceOp::kSum,
                       options),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("AllReduce(i64 x 10, user, ring)"),
                       HasSubstr("AllReduce(i64 x 10, sum, ring)"))));
  });
}

}  // namespace
}  // namespace shoal
