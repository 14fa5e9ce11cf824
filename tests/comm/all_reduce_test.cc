// SPDX-License-Identifier: Apache-2.0
//
// AllReduce between processes: every type, op and algorithm, awkward counts, in
// place and not, aligned and not; the same bits on every rank, and those of the
// documented order.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tests/comm/test_vector.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

constexpr Algorithm kAlgorithms[] = {
    Algorithm::kRing,    Algorithm::kRecursiveDoubling, Algorithm::kDirect,
    Algorithm::kOneShot, Algorithm::kHalvingDoubling,   Algorithm::kTree};

enum class Placement { kInPlace, kOutOfPlace, kMisaligned, kMisalignedInPlace };
constexpr Placement kPlacements[] = {
    Placement::kInPlace, Placement::kOutOfPlace, Placement::kMisaligned,
    Placement::kMisalignedInPlace};

struct Case {
  DType dtype;
  ReduceOp op;
  Algorithm algorithm;
  std::int64_t count;
  Placement placement;

  std::string ToString() const {
    return absl::StrCat(
        "AllReduce of ", count, " x ", absl::StrCat(DTypeName(dtype)), ", ",
        absl::StrCat(ReduceOpName(op)), ", ",
        absl::StrCat(AlgorithmName(algorithm)), ", placement ", placement);
  }
};

absl::Status Wrong(const Case& test, std::int64_t i, std::uint64_t got,
                   std::uint64_t expected) {
  return absl::DataLossError(absl::StrCat(test.ToString(), ": element ", i,
                                          " is 0x", absl::Hex(got),
                                          " and not 0x", absl::Hex(expected)));
}

// The elements of one case. Large vectors are shared among the ranks, each of
// which looks at its part; that all ranks have the same is checked by hashes.
absl::Status CheckElements(Communicator* communicator, const Case& test,
                           const TestVector& output) {
  const int world = communicator->world_size();
  const bool shared = test.count > 10'000;
  const std::int64_t begin =
      shared ? test.count * communicator->rank() / world : 0;
  const std::int64_t end =
      shared ? test.count * (communicator->rank() + 1) / world : test.count;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::uint64_t expected = AllReduceBits(
        test.dtype, test.op, test.algorithm, world, test.count, i);
    if (output.Bits(i) != expected) {
      return Wrong(test, i, output.Bits(i), expected);
    }
  }
  std::int64_t hash = static_cast<std::int64_t>(output.Hash());
  std::vector<std::int64_t> hashes(world);
  SHOAL_RETURN_IF_ERROR(
      communicator->AllGather(BufferOf(absl::MakeConstSpan(&hash, 1)),
                              BufferOf(absl::MakeSpan(hashes))));
  for (int rank = 0; rank < world; ++rank) {
    if (hashes[rank] == hash) continue;
    return absl::DataLossError(
        absl::StrCat(test.ToString(), ": not the same bits as on rank ", rank));
  }
  return absl::OkStatus();
}

absl::Status RunCase(Communicator* communicator, const Case& test) {
  const bool in_place = test.placement == Placement::kInPlace ||
                        test.placement == Placement::kMisalignedInPlace;
  const bool misaligned = test.placement == Placement::kMisaligned ||
                          test.placement == Placement::kMisalignedInPlace;
  TestVector output(test.dtype, test.count, misaligned ? 1 : 0);
  TestVector input(test.dtype, in_place ? 0 : test.count, misaligned ? 3 : 0);
  TestVector& filled = in_place ? output : input;
  filled.Fill(communicator->rank());
  CallOptions options;
  options.algorithm = test.algorithm;
  if (in_place) {
    SHOAL_RETURN_IF_ERROR(
        communicator->AllReduce(output.buffer(), test.op, options));
  } else {
    const std::uint64_t before = input.Hash();
    SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
        input.const_buffer(), output.buffer(), test.op, options));
    if (input.Hash() != before) {
      return absl::DataLossError(
          absl::StrCat(test.ToString(), ": the input was written"));
    }
  }
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  return CheckElements(communicator, test, output);
}

SHOAL_RANK_BODY(EveryCase) {
  SHOAL_ASSIGN_OR_RETURN(const DType dtype, ParseDType(context.argument));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  const int world = context.world_size;
  CaseSampler sampler;
  int turn = 0;
  for (const ReduceOp op : kAllReduceOps) {
    if (!ReduceOpTakes(op, dtype)) continue;
    for (const Algorithm algorithm : kAlgorithms) {
      for (const std::int64_t count : {0, 1, 2, 7, world - 1, world + 1}) {
        for (const Placement placement : kPlacements) {
          if (!sampler.Take()) continue;
          SHOAL_RETURN_IF_ERROR(RunCase(
              communicator.get(), {dtype, op, algorithm, count, placement}));
        }
      }
      // One placement each, so that together they see all. The ring is the one
      // for large vectors; under a sanitizer the largest takes minutes.
      const std::int64_t largest = algorithm != Algorithm::kRing ? 10'007
                                   : TimeoutScale() > 1          ? 100'003
                                                                 : 1'000'003;
      const Placement placement = kPlacements[turn++ % 4];
      if (!sampler.Take()) continue;
      SHOAL_RETURN_IF_ERROR(RunCase(
          communicator.get(), {dtype, op, algorithm, largest, placement}));
    }
  }
  return absl::OkStatus();
}

class AllReduceTest : public ::testing::TestWithParam<std::tuple<int, DType>> {
};

TEST_P(AllReduceTest, HasTheDocumentedBitsOnEveryRank) {
  const auto [world, dtype] = GetParam();
  EXPECT_TRUE(WorldSucceeds("EveryCase", world,
                            {.argument = absl::StrCat(DTypeName(dtype))}));
}

INSTANTIATE_TEST_SUITE_P(Worlds, AllReduceTest,
                         ::testing::Combine(::testing::Range(1, 9),
                                            ::testing::ValuesIn(kAllDTypes)),
                         [](const auto& info) {
                           return absl::StrCat(
                               absl::StrCat(DTypeName(std::get<1>(info.param))),
                               "_world_", std::get<0>(info.param));
                         });

// A NaN on any one rank, and zeros of both signs.
template <typename T>
absl::Status CheckSpecialValues(Communicator* communicator) {
  const int rank = communicator->rank();
  const int world = communicator->world_size();
  const T nan = T(__builtin_nanf(""));
  for (const Algorithm algorithm : kAlgorithms) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      // Element r has a NaN on rank r; the last two have one zero of the other
      // sign.
      std::vector<T> values(world + 2, T(static_cast<float>(rank)));
      values[rank] = nan;
      values[world] = T(rank == 0 ? -0.0f : 0.0f);
      values[world + 1] = T(rank == world - 1 ? 0.0f : -0.0f);
      CallOptions options;
      options.algorithm = algorithm;
      SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
          BufferOf(absl::MakeSpan(values)), op, options));
      for (int i = 0; i < world; ++i) {
        const float value = static_cast<float>(values[i]);
        if (value == value) {
          return absl::DataLossError(
              absl::StrCat("the NaN of rank ", i, " was lost: ", value));
        }
      }
      const auto is_negative = [](T value) {
        return __builtin_signbit(static_cast<float>(value)) != 0;
      };
      const bool min = op == ReduceOp::kMin;
      // In a world of one there is one zero only.
      if (is_negative(values[world]) != (min || world == 1) ||
          is_negative(values[world + 1]) != (min && world > 1)) {
        return absl::DataLossError("the wrong zero");
      }
    }
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(SpecialValues) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  SHOAL_RETURN_IF_ERROR(CheckSpecialValues<float>(communicator.get()));
  SHOAL_RETURN_IF_ERROR(CheckSpecialValues<double>(communicator.get()));
  SHOAL_RETURN_IF_ERROR(CheckSpecialValues<Float16>(communicator.get()));
  return CheckSpecialValues<BFloat16>(communicator.get());
}

TEST(AllReduceSpecialValuesTest, NansAndZerosSurvive) {
  for (int world = 1; world <= 8; ++world) {
    EXPECT_TRUE(WorldSucceeds("SpecialValues", world));
  }
}

}  // namespace
}  // namespace shoal::tests
