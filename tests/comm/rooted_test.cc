// SPDX-License-Identifier: Apache-2.0
//
// Reduce, Gather and Scatter between processes: to and from every root, by
// every algorithm, in place and not.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tests/comm/test_vector.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 2, 7, 1009};
constexpr std::int64_t kLargeCount = 60'013;

constexpr Algorithm kForReduce[] = {Algorithm::kTree, Algorithm::kChain,
                                    Algorithm::kLinear};

struct ReduceCase {
  DType dtype;
  ReduceOp op;
  Algorithm algorithm;
  std::int64_t count;
  int root;
  bool in_place;
};

absl::Status CheckReduce(Communicator* communicator, const ReduceCase& test) {
  const int world = communicator->world_size();
  const bool is_root = communicator->rank() == test.root;
  const int misalignment = static_cast<int>(test.count % 2);
  TestVector input(test.dtype, test.count, misalignment);
  TestVector output(test.dtype, test.count, misalignment);
  input.Fill(communicator->rank());
  const std::uint64_t before = input.Hash();
  CallOptions options;
  options.algorithm = test.algorithm;
  if (test.in_place) {
    SHOAL_RETURN_IF_ERROR(
        communicator->Reduce(input.buffer(), test.op, test.root, options));
  } else {
    // Where there is no result, there need not be an output.
    SHOAL_RETURN_IF_ERROR(communicator->Reduce(
        input.const_buffer(), is_root ? output.buffer() : Buffer(), test.op,
        test.root, options));
  }
  SHOAL_RETURN_IF_ERROR(input.CheckGuards());
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  const std::string name = absl::StrCat(
      "Reduce of ", test.count, " x ", absl::StrCat(DTypeName(test.dtype)),
      ", ", absl::StrCat(ReduceOpName(test.op)), ", ",
      absl::StrCat(AlgorithmName(test.algorithm)), ", root ", test.root,
      test.in_place ? ", in place" : "");
  if (!(is_root && test.in_place) && input.Hash() != before) {
    return absl::DataLossError(absl::StrCat(name, ": the input was written"));
  }
  if (!is_root) return absl::OkStatus();
  const TestVector& result = test.in_place ? input : output;
  for (std::int64_t i = 0; i < test.count; ++i) {
    const std::uint64_t expected =
        ReduceBits(test.dtype, test.op, test.algorithm, world, test.root, i);
    if (result.Bits(i) == expected) continue;
    return absl::DataLossError(
        absl::StrCat(name, ": element ", i, " is 0x", absl::Hex(result.Bits(i)),
                     " and not 0x", absl::Hex(expected)));
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(Reduces) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  CaseSampler sampler;
  for (const DType dtype : kAllDTypes) {
    for (const Algorithm algorithm : kForReduce) {
      for (int root = 0; root < context.world_size; ++root) {
        const bool in_place = (root + static_cast<int>(algorithm)) % 2 == 0;
        for (const ReduceOp op : kAllReduceOps) {
          if (!ReduceOpTakes(op, dtype)) continue;
          for (const std::int64_t count : kCounts) {
            if (!sampler.Take()) continue;
            SHOAL_RETURN_IF_ERROR(
                CheckReduce(communicator.get(),
                            {dtype, op, algorithm, count, root, in_place}));
            SHOAL_RETURN_IF_ERROR(
                CheckReduce(communicator.get(),
                            {dtype, op, algorithm, count, root, !in_place}));
          }
        }
        SHOAL_RETURN_IF_ERROR(CheckReduce(
            communicator.get(),
            {dtype, ReduceOp::kSum, algorithm, kLargeCount, root, in_place}));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGather(Communicator* communicator, DType dtype,
                         std::int64_t count, int root, bool in_place) {
  const int world = communicator->world_size();
  const int rank = communicator->rank();
  const bool is_root = rank == root;
  TestVector input(dtype, count, static_cast<int>(count % 2));
  TestVector output(dtype, is_root ? world * count : 0,
                    static_cast<int>(count % 2));
  input.Fill(rank);
  ConstBuffer mine = input.const_buffer();
  if (is_root && in_place) {
    const Buffer part = output.part(rank * count, count);
    if (count > 0) std::memcpy(part.data, input.data(), input.size_bytes());
    mine = part;
  }
  SHOAL_RETURN_IF_ERROR(
      communicator->Gather(mine, is_root ? output.buffer() : Buffer(), root));
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  if (!is_root) return absl::OkStatus();
  for (int from = 0; from < world; ++from) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (output.Bits(from * count + i) == InputBits(dtype, from, i)) continue;
      return absl::DataLossError(absl::StrCat(
          "Gather of ", absl::StrCat(DTypeName(dtype)), " x ", count, ", root ",
          root, ": element ", i, " of rank ", from, "'s part is wrong"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScatter(Communicator* communicator, DType dtype,
                          std::int64_t count, int root, bool in_place) {
  const int world = communicator->world_size();
  const int rank = communicator->rank();
  const bool is_root = rank == root;
  TestVector input(dtype, is_root ? world * count : 0,
                   static_cast<int>(count % 2));
  TestVector output(dtype, count, static_cast<int>(count % 2));
  input.Fill(rank);
  const std::uint64_t before = input.Hash();
  const bool inside = is_root && in_place;
  SHOAL_RETURN_IF_ERROR(communicator->Scatter(
      is_root ? input.const_buffer() : ConstBuffer(),
      inside ? input.part(rank * count, count) : output.buffer(), root));
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  if (input.Hash() != before) {
    return absl::DataLossError("Scatter wrote to its input");
  }
  for (std::int64_t i = 0; i < count && !inside; ++i) {
    if (output.Bits(i) == InputBits(dtype, root, rank * count + i)) continue;
    return absl::DataLossError(
        absl::StrCat("Scatter of ", absl::StrCat(DTypeName(dtype)), " x ",
                     count, ", root ", root, ": element ", i, " is wrong"));
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(GathersAndScatters) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  CaseSampler sampler;
  for (const DType dtype : kAllDTypes) {
    for (int root = 0; root < context.world_size; ++root) {
      for (const bool in_place : {false, true}) {
        for (const std::int64_t count : {0, 1, 2, 7, 1009, 60'013}) {
          if (!sampler.Take()) continue;
          SHOAL_RETURN_IF_ERROR(
              CheckGather(communicator.get(), dtype, count, root, in_place));
          SHOAL_RETURN_IF_ERROR(
              CheckScatter(communicator.get(), dtype, count, root, in_place));
        }
      }
    }
  }
  return absl::OkStatus();
}

class RootedTest : public ::testing::TestWithParam<int> {};

TEST_P(RootedTest, Reduce) {
  EXPECT_TRUE(WorldSucceeds("Reduces", GetParam()));
}
TEST_P(RootedTest, GatherAndScatter) {
  EXPECT_TRUE(WorldSucceeds("GathersAndScatters", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, RootedTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace shoal::tests
