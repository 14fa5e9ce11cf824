// SPDX-License-Identifier: Apache-2.0
//
// Reductions whose elements travel in another form, held against the rounding
// that docs/architecture.md states, folded here once more.

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/in_process_communicator.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/comm/wire_reference.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void OnEveryRank(int world_size, const std::function<void(Communicator&)>& body,
                 const InProcessOptions& options = {}) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const std::vector<std::unique_ptr<Communicator>> world,
      InProcessCommunicator::CreateWorld(world_size, options));
  std::vector<std::thread> threads;
  for (const auto& communicator : world) {
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

template <typename T>
std::vector<T> As(const Floats& values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(T(value));
  return result;
}

template <typename T>
Floats ToFloats(const std::vector<T>& values) {
  Floats result;
  for (const T& value : values) result.push_back(static_cast<float>(value));
  return result;
}

template <typename T>
void ExpectSameBits(const std::vector<T>& actual,
                    const std::vector<T>& expected, const WireCase& test) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(T)), 0)
        << test.ToString() << ": element " << i << " is "
        << static_cast<float>(actual[i]) << " and not "
        << static_cast<float>(expected[i]);
  }
}

// The inputs of all ranks in the type T, and again as floats.
template <typename T>
struct Inputs {
  Inputs(int world_size, std::int64_t count) {
    for (int rank = 0; rank < world_size; ++rank) {
      data.push_back(As<T>(WireInput(rank, count)));
      floats.push_back(ToFloats(data.back()));
    }
  }
  std::vector<std::vector<T>> data;
  std::vector<Floats> floats;
};

template <typename T>
void CheckAllReduce(Communicator& comm, const WireCase& test) {
  const Inputs<T> inputs(test.world_size, test.count);
  const std::vector<T> expected = As<T>(ExpectedAllReduce(test, inputs.floats));
  CallOptions options;
  options.algorithm = test.algorithm;
  options.wire = test.wire;
  std::vector<T> values = inputs.data[comm.rank()];
  // Ranks need not agree on this.
  if ((comm.rank() + test.count) % 2 == 0) {
    SHOAL_ASSERT_OK(
        comm.AllReduce(BufferOf(absl::MakeSpan(values)), test.op, options));
    return ExpectSameBits(values, expected, test);
  }
  std::vector<T> output(values.size());
  SHOAL_ASSERT_OK(comm.AllReduce(BufferOf(absl::MakeConstSpan(values)),
                                 BufferOf(absl::MakeSpan(output)), test.op,
                                 options));
  ExpectSameBits(output, expected, test);
  ExpectSameBits(values, inputs.data[comm.rank()], test);
}

template <typename T>
void CheckReduceScatter(Communicator& comm, const WireCase& test) {
  const int rank = comm.rank();
  const Inputs<T> inputs(test.world_size, test.count * test.world_size);
  const std::vector<T> expected =
      As<T>(ExpectedReduceScatter(test, inputs.floats, rank));
  CallOptions options;
  options.algorithm = test.algorithm;
  options.wire = test.wire;
  std::vector<T> values = inputs.data[rank];
  std::vector<T> output(test.count);
  if ((rank + test.count) % 2 == 0) {
    const auto part =
        absl::MakeSpan(values).subspan(rank * test.count, test.count);
    SHOAL_ASSERT_OK(comm.ReduceScatter(BufferOf(absl::MakeConstSpan(values)),
                                       BufferOf(part), test.op, options));
    output.assign(part.begin(), part.end());
  } else {
    SHOAL_ASSERT_OK(comm.ReduceScatter(BufferOf(absl::MakeConstSpan(values)),
                                       BufferOf(absl::MakeSpan(output)),
                                       test.op, options));
    ExpectSameBits(values, inputs.data[rank], test);
  }
  ExpectSameBits(output, expected, test);
}

template <typename T>
void CheckReduce(Communicator& comm, const WireCase& test) {
  const Inputs<T> inputs(test.world_size, test.count);
  CallOptions options;
  options.algorithm = test.algorithm;
  options.wire = test.wire;
  for (const int root : {0, test.world_size - 1}) {
    const std::vector<T> expected =
        As<T>(ExpectedReduce(test, inputs.floats, root));
    std::vector<T> values = inputs.data[comm.rank()];
    std::vector<T> output(values.size());
    const bool in_place = (comm.rank() + test.count) % 2 == 0;
    SHOAL_ASSERT_OK(
        comm.Reduce(BufferOf(absl::MakeConstSpan(values)),
                    BufferOf(absl::MakeSpan(in_place ? values : output)),
                    test.op, root, options));
    if (comm.rank() == root) {
      ExpectSameBits(in_place ? values : output, expected, test);
    } else {
      ExpectSameBits(values, inputs.data[comm.rank()], test);
    }
  }
}

template <typename T>
void CheckEveryAlgorithm(Communicator& comm, WireCase test) {
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kRecursiveDoubling, Algorithm::kDirect,
        Algorithm::kOneShot}) {
    test.algorithm = algorithm;
    CheckAllReduce<T>(comm, test);
  }
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
    test.algorithm = algorithm;
    CheckReduceScatter<T>(comm, test);
  }
  for (const Algorithm algorithm : {Algorithm::kChain, Algorithm::kLinear}) {
    test.algorithm = algorithm;
    CheckReduce<T>(comm, test);
  }
}

template <typename T>
void CheckEveryCase(WireFormat wire) {
  for (int n = 1; n <= 8; ++n) {
    OnEveryRank(n, [n, wire](Communicator& comm) {
      for (const ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax}) {
        for (const std::int64_t count : {0, 1, 31, 33, 64, 509}) {
          CheckEveryAlgorithm<T>(comm, {wire, Algorithm::kAuto, op, n, count});
        }
      }
      // Several slices.
      if (n == 3) {
        CheckEveryAlgorithm<T>(
            comm, {wire, Algorithm::kAuto, ReduceOp::kSum, n, 100'003});
      }
    });
  }
}

TEST(WireReductionTest, HalvesAreRoundedOnceWherePartialsTravelInF32) {
  CheckEveryCase<Float16>(WireFormat::kF32);
  CheckEveryCase<BFloat16>(WireFormat::kF32);
}

TEST(WireReductionTest, F32TravelsInBF16) {
  CheckEveryCase<float>(WireFormat::kBF16);
}

TEST(WireReductionTest, F32TravelsInQ8_0) {
  CheckEveryCase<float>(WireFormat::kQ8_0);
}

// Blocks come in pieces, and staging holds one at a time.
TEST(WireReductionTest, AnyLinkAndSlice) {
  for (const std::size_t capacity : {1, 7, 100}) {
    for (const std::size_t slice : {1, 50, 80}) {
      InProcessOptions tiny;
      tiny.link_capacity_bytes = capacity;
      tiny.slice_bytes = slice;
      OnEveryRank(
          3,
          [](Communicator& comm) {
            for (const std::int64_t count : {5, 31, 97, 300}) {
              WireCase test = {WireFormat::kQ8_0, Algorithm::kAuto,
                               ReduceOp::kAverage, 3, count};
              CheckEveryAlgorithm<float>(comm, test);
              test.wire = WireFormat::kBF16;
              CheckEveryAlgorithm<float>(comm, test);
              test.wire = WireFormat::kF32;
              CheckEveryAlgorithm<Float16>(comm, test);
            }
          },
          tiny);
    }
  }
}

// Where partial sums are in f32 there is nothing that would have to be the same
// block by block.
TEST(WireReductionTest, PartialsTravelInF32InEveryAlgorithm) {
  for (int n = 1; n <= 8; ++n) {
    OnEveryRank(n, [n](Communicator& comm) {
      // Sums that are exact in f32 and not in f16.
      std::vector<Float16> input(100);
      float sum = 0;
      for (int rank = 0; rank < n; ++rank) {
        sum += static_cast<float>(Float16(2000.0f + rank));
      }
      input.assign(100, Float16(2000.0f + comm.rank()));
      CallOptions options;
      options.wire = WireFormat::kF32;
      for (const Algorithm algorithm :
           {Algorithm::kAuto, Algorithm::kTree, Algorithm::kHalvingDoubling}) {
        options.algorithm = algorithm;
        std::vector<Float16> values = input;
        SHOAL_ASSERT_OK(comm.AllReduce(BufferOf(absl::MakeSpan(values)),
                                       ReduceOp::kSum, options));
        for (const Float16 value : values) {
          ASSERT_EQ(value.bits, Float16(sum).bits);
        }
      }
      options.algorithm = Algorithm::kTree;
      std::vector<Float16> output(100);
      SHOAL_ASSERT_OK(comm.Reduce(BufferOf(absl::MakeConstSpan(input)),
                                  BufferOf(absl::MakeSpan(output)),
                                  ReduceOp::kSum, n - 1, options));
      if (comm.rank() == n - 1) {
        ASSERT_EQ(output[99].bits, Float16(sum).bits);
      }
    });
  }
}

TEST(WireReductionTest, SeveralBuffersAtOnce) {
  OnEveryRank(3, [](Communicator& comm) {
    const std::int64_t counts[] = {40, 0, 61};
    const WireCase test = {WireFormat::kQ8_0, Algorithm::kRing, ReduceOp::kSum,
                           3, 101};
    const Inputs<float> inputs(3, 101);
    std::vector<float> values = inputs.data[comm.rank()];
    std::vector<Buffer> buffers;
    float* at = values.data();
    for (const std::int64_t count : counts) {
      buffers.push_back({at, count, DType::kF32});
      at += count;
    }
    CallOptions options;
    options.algorithm = test.algorithm;
    options.wire = test.wire;
    SHOAL_ASSERT_OK(comm.AllReduceCoalesced(buffers, test.op, options));
    ExpectSameBits(values, ExpectedAllReduce(test, inputs.floats), test);
  });
}

TEST(WireReductionTest, WhereThePolicyChoosesATreeAChainTakesItsPlace) {
  OnEveryRank(3, [](Communicator& comm) {
    const WireCase test = {WireFormat::kBF16, Algorithm::kChain, ReduceOp::kSum,
                           3, 50};
    const Inputs<float> inputs(3, 50);
    std::vector<float> values = inputs.data[comm.rank()];
    CallOptions options;
    options.wire = test.wire;
    const Buffer buffer = BufferOf(absl::MakeSpan(values));
    SHOAL_ASSERT_OK(comm.Reduce(buffer, buffer, test.op, 1, options));
    if (comm.rank() == 1) {
      ExpectSameBits(values, ExpectedReduce(test, inputs.floats, 1), test);
    }
  });
}

TEST(WireReductionTest, RanksThatDisagreeAreToldSo) {
  OnEveryRank(2, [](Communicator& comm) {
    Floats values(100);
    CallOptions options;
    options.algorithm = Algorithm::kRing;
    if (comm.rank() == 1) options.wire = WireFormat::kBF16;
    EXPECT_THAT(comm.AllReduce(BufferOf(absl::MakeSpan(values)), ReduceOp::kSum,
                               options),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("AllReduce(f32 x 100, sum, ring)"),
                               HasSubstr("AllReduce(f32 x 100, sum, ring, wire "
                                         "bf16)"))));
  });
}

TEST(WireReductionTest, RefusesWhatDoesNotGoTogether) {
  OnEveryRank(1, [](Communicator& comm) {
    Floats values(4);
    const Buffer buffer = BufferOf(absl::MakeSpan(values));
    const auto refused = [](const std::string& what) {
      return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
    };
    CallOptions options;
    options.wire = WireFormat::kF32;
    EXPECT_THAT(comm.AllReduce(buffer, ReduceOp::kSum, options),
                refused("AllReduce: the wire format f32 is not one of f32"));
    EXPECT_THAT(comm.Broadcast(buffer, 0, options),
                refused("Broadcast: has no choice of wire formats"));
    options.wire = static_cast<WireFormat>(9);
    EXPECT_THAT(comm.AllReduce(buffer, ReduceOp::kSum, options),
                refused("unknown wire format wire(9)"));
    options.wire = WireFormat::kQ8_0;
    options.algorithm = Algorithm::kHalvingDoubling;
    EXPECT_THAT(
        comm.AllReduce(buffer, ReduceOp::kSum, options),
        refused(
            "choose one of auto, ring, recursive-doubling, direct, one-shot"));
    EXPECT_THAT(comm.status(), StatusIs(absl::StatusCode::kOk));
  });
}

}  // namespace
}  // namespace shoal::internal
