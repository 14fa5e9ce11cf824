// SPDX-License-Identifier: Apache-2.0
//
// Vectors of more than 4 GiB between two processes. Takes 10 GB of memory:
//   bazel test //tests/comm:large_test

#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/timeouts.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

constexpr std::int64_t kCount = (std::int64_t{1} << 32) + (1 << 20) + 7;

// Another byte 4 GiB further on: lengths and places that lose their upper bits
// show.
std::uint8_t ByteAt(std::int64_t i, int rank) {
  return static_cast<std::uint8_t>(i * 31 + (i >> 20) * 7 + (i >> 32) * 101 +
                                   rank);
}

absl::Status Check(const std::uint8_t* bytes, int ranks) {
  for (std::int64_t i = 0; i < kCount; ++i) {
    std::uint8_t expected = 0;
    for (int rank = 0; rank < ranks; ++rank) expected += ByteAt(i, rank);
    if (bytes[i] == expected) continue;
    return absl::DataLossError(
        absl::StrCat("byte ", i, " is ", bytes[i], " and not ", expected));
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(MoreThanFourGi) {
  Timeouts timeouts = RankContext::SlowBuildTimeouts();
  timeouts.operation = absl::Minutes(10);
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join(timeouts));
  const auto bytes = std::make_unique<std::uint8_t[]>(kCount);
  const auto fill = [&] {
    for (std::int64_t i = 0; i < kCount; ++i) {
      bytes[i] = ByteAt(i, context.rank);
    }
  };
  const Buffer whole = {bytes.get(), kCount, DType::kU8};
  if (context.rank == 0) fill();
  CallOptions options;
  options.algorithm = Algorithm::kChain;
  SHOAL_RETURN_IF_ERROR(communicator->Broadcast(whole, 0, options));
  SHOAL_RETURN_IF_ERROR(Check(bytes.get(), 1));
  if (context.rank == 0) {
    SHOAL_RETURN_IF_ERROR(communicator->Send(whole, 1));
  } else {
    std::memset(bytes.get(), 0, kCount);
    SHOAL_RETURN_IF_ERROR(communicator->Recv(whole, 0));
    SHOAL_RETURN_IF_ERROR(Check(bytes.get(), 1));
  }
  fill();
  options.algorithm = Algorithm::kRing;
  SHOAL_RETURN_IF_ERROR(
      communicator->AllReduce(whole, ReduceOp::kSum, options));
  return Check(bytes.get(), 2);
}

TEST(LargeTest, MoreThanFourGi) {
  EXPECT_TRUE(
      WorldSucceeds("MoreThanFourGi", 2, {.deadline = absl::Minutes(14)}));
}

}  // namespace
}  // namespace shoal::tests
