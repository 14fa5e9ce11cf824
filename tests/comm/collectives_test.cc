// SPDX-License-Identifier: Apache-2.0
//
// ReduceScatter, AllGather, Broadcast and Barrier between processes.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tests/comm/test_vector.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/shared_counters.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 2, 7, 1009};
constexpr std::int64_t kLargeCount = 100'003;

constexpr Algorithm kForParts[] = {Algorithm::kRing, Algorithm::kDirect};
constexpr Algorithm kForBroadcast[] = {Algorithm::kBinomialTree,
                                       Algorithm::kChain, Algorithm::kLinear};

CallOptions By(Algorithm algorithm) {
  CallOptions options;
  options.algorithm = algorithm;
  return options;
}

absl::Status CheckReduceScatter(Communicator* communicator, DType dtype,
                                ReduceOp op, Algorithm algorithm,
                                std::int64_t count, bool in_place) {
  const int world = communicator->world_size();
  const int rank = communicator->rank();
  const int misalignment = static_cast<int>(count % 2);
  TestVector input(dtype, world * count, misalignment);
  TestVector output(dtype, in_place ? 0 : count, misalignment);
  input.Fill(rank);
  SHOAL_RETURN_IF_ERROR(communicator->ReduceScatter(
      input.const_buffer(),
      in_place ? input.part(rank * count, count) : output.buffer(), op,
      By(algorithm)));
  SHOAL_RETURN_IF_ERROR(input.CheckGuards());
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t got =
        in_place ? input.Bits(rank * count + i) : output.Bits(i);
    const std::uint64_t expected =
        ReduceScatterBits(dtype, op, algorithm, world, count, rank, i);
    if (got != expected) {
      return absl::DataLossError(
          absl::StrCat("ReduceScatter of ", absl::StrCat(DTypeName(dtype)),
                       " x ", count, ", ", absl::StrCat(ReduceOpName(op)), ", ",
                       absl::StrCat(AlgorithmName(algorithm)),
                       in_place ? ", in place" : "", ": element ", i, " is 0x",
                       absl::Hex(got), " and not 0x", absl::Hex(expected)));
    }
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(ReduceScatters) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  CaseSampler sampler;
  for (const DType dtype : kAllDTypes) {
    for (const Algorithm algorithm : kForParts) {
      for (const bool in_place : {false, true}) {
        for (const ReduceOp op : kAllReduceOps) {
          if (!ReduceOpTakes(op, dtype)) continue;
          for (const std::int64_t count : kCounts) {
            if (!sampler.Take()) continue;
            SHOAL_RETURN_IF_ERROR(CheckReduceScatter(
                communicator.get(), dtype, op, algorithm, count, in_place));
          }
        }
        SHOAL_RETURN_IF_ERROR(CheckReduceScatter(communicator.get(), dtype,
                                                 ReduceOp::kSum, algorithm,
                                                 kLargeCount, in_place));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAllGather(Communicator* communicator, DType dtype,
                            Algorithm algorithm, std::int64_t count,
                            bool in_place) {
  const int world = communicator->world_size();
  const int rank = communicator->rank();
  const int misalignment = static_cast<int>(count % 2);
  TestVector input(dtype, count, misalignment);
  TestVector output(dtype, world * count, misalignment);
  input.Fill(rank);
  if (in_place) {
    const Buffer mine = output.part(rank * count, count);
    if (count > 0) std::memcpy(mine.data, input.data(), input.size_bytes());
    SHOAL_RETURN_IF_ERROR(
        communicator->AllGather(mine, output.buffer(), By(algorithm)));
  } else {
    SHOAL_RETURN_IF_ERROR(communicator->AllGather(
        input.const_buffer(), output.buffer(), By(algorithm)));
  }
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  for (int from = 0; from < world; ++from) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (output.Bits(from * count + i) == InputBits(dtype, from, i)) continue;
      return absl::DataLossError(
          absl::StrCat("AllGather of ", absl::StrCat(DTypeName(dtype)), " x ",
                       count, in_place ? ", in place" : "", ": element ", i,
                       " of rank ", from, "'s part is wrong"));
    }
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(AllGathers) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  CaseSampler sampler;
  for (const DType dtype : kAllDTypes) {
    for (const Algorithm algorithm : kForParts) {
      for (const bool in_place : {false, true}) {
        for (const std::int64_t count : kCounts) {
          if (!sampler.Take()) continue;
          SHOAL_RETURN_IF_ERROR(CheckAllGather(communicator.get(), dtype,
                                               algorithm, count, in_place));
        }
        SHOAL_RETURN_IF_ERROR(CheckAllGather(communicator.get(), dtype,
                                             algorithm, kLargeCount, in_place));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBroadcast(Communicator* communicator, DType dtype,
                            Algorithm algorithm, std::int64_t count, int root) {
  TestVector vector(dtype, count, static_cast<int>(count % 2));
  vector.Fill(communicator->rank());
  SHOAL_RETURN_IF_ERROR(
      communicator->Broadcast(vector.buffer(), root, By(algorithm)));
  SHOAL_RETURN_IF_ERROR(vector.CheckGuards());
  for (std::int64_t i = 0; i < count; ++i) {
    if (vector.Bits(i) == InputBits(dtype, root, i)) continue;
    return absl::DataLossError(
        absl::StrCat("Broadcast of ", absl::StrCat(DTypeName(dtype)), " x ",
                     count, " from root ", root, ": element ", i, " is wrong"));
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(Broadcasts) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  for (const DType dtype : kAllDTypes) {
    for (int root = 0; root < context.world_size; ++root) {
      for (const Algorithm algorithm : kForBroadcast) {
        for (const std::int64_t count : kCounts) {
          SHOAL_RETURN_IF_ERROR(CheckBroadcast(communicator.get(), dtype,
                                               algorithm, count, root));
        }
        SHOAL_RETURN_IF_ERROR(CheckBroadcast(communicator.get(), dtype,
                                             algorithm, kLargeCount, root));
      }
    }
  }
  return absl::OkStatus();
}

// Nobody is past a barrier before everybody has come to it. In each round
// another rank comes last: it waits until all others are at the barrier's door,
// and lets them go too far if they can.
SHOAL_RANK_BODY(Barriers) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  const int world = context.world_size;
  std::atomic<std::int64_t>& arrivals = counters[0];
  for (std::int64_t round = 0; round < 200; ++round) {
    if (round % world == context.rank) {
      SHOAL_RETURN_IF_ERROR(
          counters.AwaitAtLeast(0, round * world + world - 1));
      std::this_thread::yield();
    }
    arrivals.fetch_add(1);
    SHOAL_RETURN_IF_ERROR(communicator->Barrier());
    if (arrivals.load() < (round + 1) * world) {
      return absl::InternalError(absl::StrCat(
          "past barrier ", round, " when ", arrivals.load() - round * world,
          " of ", world, " ranks had come"));
    }
  }
  return absl::OkStatus();
}

// Different collectives after one another, without a pause: one rank is ahead
// of another by as much as the algorithms allow.
SHOAL_RANK_BODY(MixedCollectives) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  for (int round = 0; round < 50; ++round) {
    const std::int64_t count = 1 + round * 37;
    const DType dtype = kAllDTypes[round % 8];
    const int root = round % context.world_size;
    SHOAL_RETURN_IF_ERROR(CheckBroadcast(
        communicator.get(), dtype, kForBroadcast[round % 3], count, root));
    SHOAL_RETURN_IF_ERROR(
        CheckReduceScatter(communicator.get(), dtype, ReduceOp::kSum,
                           kForParts[round % 2], count, false));
    SHOAL_RETURN_IF_ERROR(communicator->Barrier());
    SHOAL_RETURN_IF_ERROR(CheckAllGather(
        communicator.get(), dtype, kForParts[round / 2 % 2], count, true));
  }
  return absl::OkStatus();
}

class CollectivesTest : public ::testing::TestWithParam<int> {};

TEST_P(CollectivesTest, ReduceScatter) {
  EXPECT_TRUE(WorldSucceeds("ReduceScatters", GetParam()));
}
TEST_P(CollectivesTest, AllGather) {
  EXPECT_TRUE(WorldSucceeds("AllGathers", GetParam()));
}
TEST_P(CollectivesTest, Broadcast) {
  EXPECT_TRUE(WorldSucceeds("Broadcasts", GetParam()));
}
TEST_P(CollectivesTest, Barrier) {
  EXPECT_TRUE(WorldSucceeds("Barriers", GetParam()));
}
TEST_P(CollectivesTest, Mixed) {
  EXPECT_TRUE(WorldSucceeds("MixedCollectives", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, CollectivesTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace shoal::tests
