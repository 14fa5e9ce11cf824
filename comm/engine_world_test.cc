// SPDX-License-Identifier: Apache-2.0
//
// Whole worlds of engines over in-memory links: every collective, every type,
// awkward counts; one thread for all ranks, or one thread a rank.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/memory_link.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/simulated_call.h"

namespace shoal::internal {
namespace {

SimulatedCall MakeCall(CallKind kind, Algorithm algorithm, DType dtype,
                       std::int64_t count) {
  SimulatedCall call;
  call.signature.kind = kind;
  call.signature.algorithm = algorithm;
  call.signature.dtype = dtype;
  call.signature.count = count;
  return call;
}

// All that there are, for a given type and count.
std::vector<SimulatedCall> AllCalls(DType dtype, std::int64_t count,
                                    int world_size) {
  std::vector<SimulatedCall> calls;
  for (const ReduceOp op : kAllReduceOps) {
    for (const bool in_place : {false, true}) {
      for (SimulatedCall call :
           {MakeCall(CallKind::kAllReduce, Algorithm::kRing, dtype, count),
            MakeCall(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, dtype,
                     count),
            MakeCall(CallKind::kReduceScatter, Algorithm::kRing, dtype,
                     count)}) {
        call.signature.op = op;
        call.in_place = in_place;
        calls.push_back(call);
      }
    }
  }
  for (const bool in_place : {false, true}) {
    calls.push_back(
        MakeCall(CallKind::kAllGather, Algorithm::kRing, dtype, count));
    calls.back().in_place = in_place;
  }
  for (int root = 0; root < world_size; ++root) {
    calls.push_back(
        MakeCall(CallKind::kBroadcast, Algorithm::kBinomialTree, dtype, count));
    calls.back().signature.root = root;
  }
  calls.push_back(
      MakeCall(CallKind::kBarrier, Algorithm::kDissemination, DType::kU8, 0));
  return calls;
}

// The engines of all ranks and what connects them.
class World {
 public:
  World(int world_size, std::size_t capacity_bytes, std::size_t slice_bytes)
      : world_size_(world_size) {
    std::vector<std::vector<Link*>> links(world_size,
                                          std::vector<Link*>(world_size));
    for (int a = 0; a < world_size; ++a) {
      for (int b = a + 1; b < world_size; ++b) {
        auto [end_of_a, end_of_b] =
            MakeMemoryLinkPair({.capacity_bytes = capacity_bytes});
        links[a][b] = end_of_a.get();
        links[b][a] = end_of_b.get();
        links_.push_back(std::move(end_of_a));
        links_.push_back(std::move(end_of_b));
      }
    }
    for (int rank = 0; rank < world_size; ++rank) {
      engines_.push_back(
          std::make_unique<Engine>(rank, world_size, links[rank],
                                   EngineOptions{.slice_bytes = slice_bytes}));
    }
  }

  int size() const { return world_size_; }
  Engine& engine(int rank) { return *engines_[rank]; }

  // Starts `call` on `rank`, on memory that `LayOut` has described.
  Engine::OperationId Start(int rank, const SimulatedCall& planned,
                            std::string* memory) {
    const CallMemory layout = LayOut(planned, rank, world_size_);
    Call call;
    call.signature = planned.signature;
    call.input = memory->data() + layout.input_at;
    call.output = memory->data() + layout.output_at;
    return engine(rank).Start(std::make_shared<const Schedule>(
                                  BuildSchedule(planned.signature, rank,
                                                world_size_, planned.in_place)
                                      .value()),
                              call);
  }

  // Until nothing moves on any rank.
  void Settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& engine : engines_) moved |= engine->Progress();
    }
  }

 private:
  const int world_size_;
  std::vector<std::unique_ptr<MemoryLink>> links_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

void ExpectResult(const SimulatedCall& call, int rank, int world_size,
                  int index, const std::string& memory) {
  EXPECT_TRUE(SameMemory(call, rank, world_size, memory,
                         MemoryAfter(call, rank, world_size, index)))
      << "rank " << rank << " of " << world_size << ", "
      << call.signature.ToString() << (call.in_place ? " in place" : "");
}

class EngineWorldTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Worlds, EngineWorldTest, testing::Range(1, 9));

TEST_P(EngineWorldTest, EveryCallHasTheRightResult) {
  const int n = GetParam();
  World world(n, /*capacity_bytes=*/300, /*slice_bytes=*/48);
  int index = 0;
  for (const DType dtype : kAllDTypes) {
    for (const std::int64_t count :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{7},
          std::int64_t{n - 1}, std::int64_t{n + 1}, std::int64_t{211}}) {
      for (const SimulatedCall& call : AllCalls(dtype, count, n)) {
        std::vector<std::string> memory(n);
        std::vector<Engine::OperationId> ids;
        for (int rank = 0; rank < n; ++rank) {
          memory[rank] = MemoryBefore(call, rank, n, index);
          ids.push_back(world.Start(rank, call, &memory[rank]));
        }
        world.Settle();
        for (int rank = 0; rank < n; ++rank) {
          ASSERT_TRUE(world.engine(rank).IsDone(ids[rank]))
              << call.signature.ToString();
          SHOAL_ASSERT_OK(world.engine(rank).result(ids[rank]));
          world.engine(rank).Forget(ids[rank]);
          ExpectResult(call, rank, n, index, memory[rank]);
        }
        ++index;
      }
    }
  }
  EXPECT_EQ(world.engine(0).last_completed(),
            static_cast<Engine::OperationId>(index));
}

// As in a real world: ranks run side by side, each yields when nothing moves.
TEST_P(EngineWorldTest, AThreadForEachRank) {
  const int n = GetParam();
  World world(n, /*capacity_bytes=*/1000, /*slice_bytes=*/512);
  const std::vector<SimulatedCall> calls = AllCalls(DType::kI32, 1009, n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&world, &calls, rank, n] {
      Engine& engine = world.engine(rank);
      for (std::size_t k = 0; k < calls.size(); ++k) {
        std::string memory =
            MemoryBefore(calls[k], rank, n, static_cast<int>(k));
        const Engine::OperationId id = world.Start(rank, calls[k], &memory);
        while (!engine.IsDone(id)) {
          if (!engine.Progress()) std::this_thread::yield();
        }
        SHOAL_EXPECT_OK(engine.result(id));
        engine.Forget(id);
        ExpectResult(calls[k], rank, n, static_cast<int>(k), memory);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Rank 0 starts its call in group a first and then the one in group b, rank 1
// the other way round, and each waits in that order: no group holds up another,
// since nothing is shared between them.
TEST(EngineGroupsTest, OrderHoldsInsideAGroupOnly) {
  World a(2, /*capacity_bytes=*/100, /*slice_bytes=*/64);
  World b(2, /*capacity_bytes=*/100, /*slice_bytes=*/64);
  const SimulatedCall call =
      MakeCall(CallKind::kAllReduce, Algorithm::kRing, DType::kF32, 1000);
  std::vector<std::string> memory(4);
  for (int i = 0; i < 4; ++i) memory[i] = MemoryBefore(call, i % 2, 2, 0);
  const auto drive = [](std::vector<Engine*> engines) {
    for (bool done = false; !done;) {
      done = true;
      bool moved = false;
      for (Engine* engine : engines) {
        moved |= engine->Progress();
        done &= engine->IsDone(1);
      }
      if (!moved) std::this_thread::yield();
    }
  };
  std::thread rank0([&] {
    a.Start(0, call, &memory[0]);
    b.Start(0, call, &memory[2]);
    drive({&a.engine(0), &b.engine(0)});
  });
  std::thread rank1([&] {
    b.Start(1, call, &memory[3]);
    a.Start(1, call, &memory[1]);
    drive({&b.engine(1), &a.engine(1)});
  });
  rank0.join();
  rank1.join();
  for (int i = 0; i < 4; ++i) ExpectResult(call, i % 2, 2, 0, memory[i]);
}

// Zeros of both signs, and NaNs with different payloads, on different ranks:
// whatever comes out is the same bits on all of them.
template <typename T>
std::vector<T> Special();
template <>
std::vector<float> Special() {
  std::vector<float> values = {0.0f, -0.0f, 1.0f,
                               std::numeric_limits<float>::infinity()};
  for (const std::uint32_t bits : {0x7FC00001u, 0x7FC12345u, 0xFFC00002u}) {
    float nan;
    std::memcpy(&nan, &bits, sizeof(nan));
    values.push_back(nan);
  }
  return values;
}
template <>
std::vector<double> Special() {
  std::vector<double> values = {0.0, -0.0, 1.0,
                                -std::numeric_limits<double>::infinity()};
  for (const std::uint64_t bits :
       {0x7FF8000000000001u, 0x7FF8000000012345u, 0xFFF8000000000002u}) {
    double nan;
    std::memcpy(&nan, &bits, sizeof(nan));
    values.push_back(nan);
  }
  return values;
}
template <>
std::vector<std::uint16_t> Special() {
  return {0x0000, 0x8000, 0x3F80, 0x7FC1, 0x7FC5, 0xFFC2, 0x7E01};
}

template <typename T>
void ExpectSameBits(DType dtype, int n) {
  const std::vector<T> special = Special<T>();
  // Every pair of values meets on some pair of ranks.
  const std::int64_t count = special.size() * special.size();
  for (const ReduceOp op : kAllReduceOps) {
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kRecursiveDoubling}) {
      World world(n, 4096, 64);
      std::vector<std::vector<T>> data(n);
      for (int rank = 0; rank < n; ++rank) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::size_t which =
              rank % 2 == 0 ? i % special.size() : i / special.size();
          data[rank].push_back(special[(which + rank / 2) % special.size()]);
        }
        CallSignature signature;
        signature.kind = CallKind::kAllReduce;
        signature.dtype = dtype;
        signature.op = op;
        signature.algorithm = algorithm;
        signature.count = count;
        Call call;
        call.signature = signature;
        call.input = call.output = data[rank].data();
        world.engine(rank).Start(
            std::make_shared<const Schedule>(
                BuildSchedule(signature, rank, n, true).value()),
            call);
      }
      world.Settle();
      for (int rank = 0; rank < n; ++rank) {
        SHOAL_ASSERT_OK(world.engine(rank).result(1));
        EXPECT_EQ(
            std::memcmp(data[rank].data(), data[0].data(), count * sizeof(T)),
            0)
            << "rank " << rank << " of " << n << ", " << dtype << ", " << op
            << ", " << algorithm;
      }
    }
  }
}

TEST_P(EngineWorldTest, SpecialValuesAreTheSameBitsEverywhere) {
  const int n = GetParam();
  ExpectSameBits<float>(DType::kF32, n);
  ExpectSameBits<double>(DType::kF64, n);
  ExpectSameBits<std::uint16_t>(DType::kF16, n);
  ExpectSameBits<std::uint16_t>(DType::kBF16, n);
}

}  // namespace
}  // namespace shoal::internal
