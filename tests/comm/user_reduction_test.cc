// SPDX-License-Identifier: Apache-2.0
//
// A user's own reduction between processes: associative but not commutative, so
// that an operand out of order shows.

#include "shoal/comm/user_reduction.h"

#include <cstdint>
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
#include "shoal/comm/reduce_op.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

using Values = std::vector<std::int64_t>;

// Elements are maps x -> factor * x + offset modulo 2^32, with the factor in
// the upper half; the result applies `first` and then `second`.
std::int64_t Compose(std::int64_t first, std::int64_t second) {
  const auto a = static_cast<std::uint64_t>(first);
  const auto b = static_cast<std::uint64_t>(second);
  const std::uint32_t factor =
      static_cast<std::uint32_t>(a >> 32) * static_cast<std::uint32_t>(b >> 32);
  const std::uint32_t offset =
      static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b >> 32) +
      static_cast<std::uint32_t>(b);
  return static_cast<std::int64_t>(std::uint64_t{factor} << 32 | offset);
}

const UserReduction& ComposeAll() {
  static const auto* const reduction = new UserReduction(
      [](const void* first, const void* second, void* out, std::int64_t count) {
        const auto* const a = static_cast<const std::int64_t*>(first);
        const auto* const b = static_cast<const std::int64_t*>(second);
        auto* const c = static_cast<std::int64_t*>(out);
        for (std::int64_t i = 0; i < count; ++i) c[i] = Compose(a[i], b[i]);
      });
  return *reduction;
}

std::int64_t InputOf(int rank, std::int64_t i) {
  return (std::int64_t{rank} * 2 + 3) << 32 | (i * 7 + rank * 101 + 1);
}

Values Input(int rank, std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(InputOf(rank, i));
  return values;
}

// Of all ranks, from `first` on around the world.
std::int64_t Fold(int first, int world, std::int64_t i) {
  std::int64_t value = InputOf(first % world, i);
  for (int hop = 1; hop < world; ++hop) {
    value = Compose(value, InputOf((first + hop) % world, i));
  }
  return value;
}

absl::Status ExpectValue(absl::string_view what, std::int64_t i,
                         std::int64_t value, std::int64_t expected) {
  if (value == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(what, ": element ", i, " is ", value,
                                          " and not ", expected));
}

CallOptions By(Algorithm algorithm) {
  CallOptions options;
  options.algorithm = algorithm;
  options.user_reduction = &ComposeAll();
  return options;
}

// Where the order of the ranks is kept.
absl::Status CheckAllReduce(Communicator* comm, Algorithm algorithm,
                            std::int64_t count) {
  Values values = Input(comm->rank(), count);
  SHOAL_RETURN_IF_ERROR(comm->AllReduce(BufferOf(absl::MakeSpan(values)),
                                        ReduceOp::kUser, By(algorithm)));
  for (std::int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(
        ExpectValue(absl::StrCat("all-reduce of ", count, " by ",
                                 absl::StrCat(AlgorithmName(algorithm))),
                    i, values[i], Fold(0, comm->world_size(), i)));
  }
  return absl::OkStatus();
}

absl::Status CheckReduceScatter(Communicator* comm, Algorithm algorithm,
                                std::int64_t count) {
  const int world = comm->world_size();
  const Values input = Input(comm->rank(), count * world);
  Values output(count);
  SHOAL_RETURN_IF_ERROR(comm->ReduceScatter(
      BufferOf(absl::MakeConstSpan(input)), BufferOf(absl::MakeSpan(output)),
      ReduceOp::kUser, By(algorithm)));
  // The ring begins behind the part's owner.
  const int first = algorithm == Algorithm::kRing ? comm->rank() + 1 : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(ExpectValue(
        absl::StrCat("reduce-scatter of ", count, " by ",
                     absl::StrCat(AlgorithmName(algorithm))),
        i, output[i], Fold(first, world, comm->rank() * count + i)));
  }
  return absl::OkStatus();
}

absl::Status CheckReduce(Communicator* comm, int root, std::int64_t count) {
  Values values = Input(comm->rank(), count);
  SHOAL_RETURN_IF_ERROR(comm->Reduce(BufferOf(absl::MakeSpan(values)),
                                     ReduceOp::kUser, root,
                                     By(Algorithm::kLinear)));
  for (std::int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(ExpectValue(
        absl::StrCat("reduce of ", count, " to ", root), i, values[i],
        comm->rank() == root ? Fold(0, comm->world_size(), i)
                             : InputOf(comm->rank(), i)));
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(ComposeMaps) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  Communicator* const comm = communicator.get();
  const std::int64_t world = context.world_size;
  for (const std::int64_t count :
       {std::int64_t{0}, std::int64_t{1}, world - 1, std::int64_t{13},
        std::int64_t{1009}, std::int64_t{100'003}}) {
    for (const Algorithm algorithm :
         {Algorithm::kRecursiveDoubling, Algorithm::kDirect,
          Algorithm::kOneShot}) {
      SHOAL_RETURN_IF_ERROR(CheckAllReduce(comm, algorithm, count));
    }
    for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
      SHOAL_RETURN_IF_ERROR(CheckReduceScatter(comm, algorithm, count));
    }
    for (const int root : {0, context.world_size - 1}) {
      SHOAL_RETURN_IF_ERROR(CheckReduce(comm, root, count));
    }
  }
  return absl::OkStatus();
}

class UserReductionTest : public ::testing::TestWithParam<int> {};

TEST_P(UserReductionTest, KeepsTheDocumentedOrder) {
  EXPECT_TRUE(WorldSucceeds("ComposeMaps", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, UserReductionTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace shoal::tests
