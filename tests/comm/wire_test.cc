// SPDX-License-Identifier: Apache-2.0
//
// Reductions between processes whose elements travel in f32, bf16 or Q8_0: the
// documented bits, and the same on every rank.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/comm/wire_reference.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

using internal::Floats;
using internal::WireCase;

template <typename T>
std::vector<T> As(const Floats& values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(T(value));
  return result;
}

// Of all ranks, with what the type makes of them.
template <typename T>
std::vector<Floats> Inputs(int world_size, std::int64_t count) {
  std::vector<Floats> inputs;
  for (int rank = 0; rank < world_size; ++rank) {
    Floats floats;
    for (const T value : As<T>(internal::WireInput(rank, count))) {
      floats.push_back(static_cast<float>(value));
    }
    inputs.push_back(floats);
  }
  return inputs;
}

CallOptions OptionsOf(const WireCase& test) {
  CallOptions options;
  options.algorithm = test.algorithm;
  options.wire = test.wire;
  return options;
}

template <typename T>
absl::Status ExpectBits(absl::string_view what, const WireCase& test,
                        const std::vector<T>& values,
                        const std::vector<T>& expected) {
  if (values.size() != expected.size()) {
    return absl::InternalError(
        absl::StrCat(what, ", ", test.ToString(), ": the reference has ",
                     expected.size(), " elements and not ", values.size()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::memcmp(&values[i], &expected[i], sizeof(T)) == 0) continue;
    return absl::DataLossError(
        absl::StrCat(what, ", ", test.ToString(), ": element ", i, " is ",
                     static_cast<float>(values[i]), " and not ",
                     static_cast<float>(expected[i])));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status CheckAllReduce(Communicator* communicator, const WireCase& test) {
  const std::vector<Floats> inputs = Inputs<T>(test.world_size, test.count);
  std::vector<T> values = As<T>(inputs[communicator->rank()]);
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
      BufferOf(absl::MakeSpan(values)), test.op, OptionsOf(test)));
  return ExpectBits("all-reduce", test, values,
                    As<T>(internal::ExpectedAllReduce(test, inputs)));
}

template <typename T>
absl::Status CheckReduceScatter(Communicator* communicator,
                                const WireCase& test) {
  const int rank = communicator->rank();
  const std::vector<Floats> inputs =
      Inputs<T>(test.world_size, test.count * test.world_size);
  const std::vector<T> input = As<T>(inputs[rank]);
  std::vector<T> output(test.count, T(-1.0F));
  SHOAL_RETURN_IF_ERROR(communicator->ReduceScatter(
      BufferOf(absl::MakeConstSpan(input)), BufferOf(absl::MakeSpan(output)),
      test.op, OptionsOf(test)));
  return ExpectBits("reduce-scatter", test, output,
                    As<T>(internal::ExpectedReduceScatter(test, inputs, rank)));
}

// The root has the result; the other ranks' memory stays as it was.
template <typename T>
absl::Status CheckReduce(Communicator* communicator, const WireCase& test,
                         int root) {
  const int rank = communicator->rank();
  const std::vector<Floats> inputs = Inputs<T>(test.world_size, test.count);
  std::vector<T> values = As<T>(inputs[rank]);
  SHOAL_RETURN_IF_ERROR(communicator->Reduce(BufferOf(absl::MakeSpan(values)),
                                             test.op, root, OptionsOf(test)));
  return ExpectBits(
      absl::StrCat("reduce to ", root), test, values,
      As<T>(rank == root ? internal::ExpectedReduce(test, inputs, root)
                         : inputs[rank]));
}

template <typename T>
absl::Status CheckPartial(Communicator* communicator, WireFormat wire,
                          ReduceOp op, std::int64_t count) {
  const int n = communicator->world_size();
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
    SHOAL_RETURN_IF_ERROR(
        CheckReduceScatter<T>(communicator, {wire, algorithm, op, n, count}));
  }
  for (const Algorithm algorithm : {Algorithm::kChain, Algorithm::kLinear}) {
    for (const int root : {0, n / 2, n - 1}) {
      SHOAL_RETURN_IF_ERROR(
          CheckReduce<T>(communicator, {wire, algorithm, op, n, count}, root));
    }
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(EveryWireFormatToOneOwner) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  Communicator* const comm = communicator.get();
  for (const std::int64_t count : {0, 1, 33, 1009, 20'011}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      for (const WireFormat wire : {WireFormat::kBF16, WireFormat::kQ8_0}) {
        SHOAL_RETURN_IF_ERROR(CheckPartial<float>(comm, wire, op, count));
      }
      SHOAL_RETURN_IF_ERROR(
          CheckPartial<Float16>(comm, WireFormat::kF32, op, count));
      SHOAL_RETURN_IF_ERROR(
          CheckPartial<BFloat16>(comm, WireFormat::kF32, op, count));
    }
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(EveryWireFormat) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  const int n = context.world_size;
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kRecursiveDoubling, Algorithm::kDirect,
        Algorithm::kOneShot}) {
    for (const std::int64_t count : {0, 1, 33, 1009, 100'003}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
        WireCase test = {WireFormat::kBF16, algorithm, op, n, count};
        SHOAL_RETURN_IF_ERROR(CheckAllReduce<float>(communicator.get(), test));
        test.wire = WireFormat::kQ8_0;
        SHOAL_RETURN_IF_ERROR(CheckAllReduce<float>(communicator.get(), test));
        test.wire = WireFormat::kF32;
        SHOAL_RETURN_IF_ERROR(
            CheckAllReduce<Float16>(communicator.get(), test));
        SHOAL_RETURN_IF_ERROR(
            CheckAllReduce<BFloat16>(communicator.get(), test));
      }
    }
  }
  return absl::OkStatus();
}

class WireTest : public ::testing::TestWithParam<int> {};

TEST_P(WireTest, HasTheDocumentedBitsOnEveryRank) {
  EXPECT_TRUE(WorldSucceeds("EveryWireFormat", GetParam()));
}

TEST_P(WireTest, HasTheDocumentedBitsOnTheOneOwner) {
  EXPECT_TRUE(WorldSucceeds("EveryWireFormatToOneOwner", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, WireTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace shoal::tests
