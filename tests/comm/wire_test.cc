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
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
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

template <typename T>
absl::Status CheckAllReduce(Communicator* communicator, const WireCase& test) {
  const std::vector<Floats> inputs = Inputs<T>(test.world_size, test.count);
  const std::vector<T> expected =
      As<T>(internal::ExpectedAllReduce(test, inputs));
  std::vector<T> values = As<T>(inputs[communicator->rank()]);
  CallOptions options;
  options.algorithm = test.algorithm;
  options.wire = test.wire;
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
      BufferOf(absl::MakeSpan(values)), test.op, options));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::memcmp(&values[i], &expected[i], sizeof(T)) == 0) continue;
    return absl::DataLossError(absl::StrCat(
        test.ToString(), ": element ", i, " is ", static_cast<float>(values[i]),
        " and not ", static_cast<float>(expected[i])));
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

INSTANTIATE_TEST_SUITE_P(Worlds, WireTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace shoal::tests
