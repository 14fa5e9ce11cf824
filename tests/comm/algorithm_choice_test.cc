// SPDX-License-Identifier: Apache-2.0
//
// SHOAL_ALGO between processes: rank 0's decides for all ranks, whatever the
// others' says, and a call's own choice wins over it.

#include <stdlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
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
#include "shoal/comm/trace_event.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

constexpr Algorithm kOfAllReduce[] = {Algorithm::kRing, Algorithm::kDirect,
                                      Algorithm::kRecursiveDoubling,
                                      Algorithm::kOneShot};

// One all-reduce, whose trace has to name `algorithm`; any, if that is empty.
absl::Status Check(Communicator* comm, std::int64_t count,
                   absl::string_view algorithm,
                   const CallOptions& options = {}) {
  std::vector<std::int64_t> values(count, comm->rank() + 1);
  comm->StartTrace();
  SHOAL_RETURN_IF_ERROR(comm->AllReduce(BufferOf(absl::MakeSpan(values)),
                                        ReduceOp::kSum, options));
  const std::vector<TraceEvent> events = comm->TakeTrace();
  const std::int64_t sum = comm->world_size() * (comm->world_size() + 1) / 2;
  for (const std::int64_t value : values) {
    if (value != sum) return absl::DataLossError(absl::StrCat("sum ", value));
  }
  if (events.size() != 1) {
    return absl::InternalError(absl::StrCat(events.size(), " events"));
  }
  if (algorithm.empty() ||
      absl::StrContains(events[0].call, absl::StrCat(", ", algorithm, ")"))) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat(events[0].call, " went not by ", algorithm));
}

// The argument is rank 0's SHOAL_ALGO, "" for none; each other rank has one of
// its own.
SHOAL_RANK_BODY(FollowRankZero) {
  const int other = context.rank % 4;
  const std::string mine =
      context.rank == 0 ? context.argument
                        : absl::StrCat(AlgorithmName(kOfAllReduce[other]));
  if (mine.empty() ? unsetenv("SHOAL_ALGO") != 0
                   : setenv("SHOAL_ALGO", mine.c_str(), 1) != 0) {
    return absl::InternalError("the environment does not take SHOAL_ALGO");
  }
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  for (const std::int64_t count : {1, 13, 1009, 100'003}) {
    SHOAL_RETURN_IF_ERROR(Check(communicator.get(), count, context.argument));
    for (const Algorithm algorithm : kOfAllReduce) {
      CallOptions options;
      options.algorithm = algorithm;
      SHOAL_RETURN_IF_ERROR(Check(communicator.get(), count,
                                  absl::StrCat(AlgorithmName(algorithm)),
                                  options));
    }
  }
  return absl::OkStatus();
}

class AlgorithmChoiceTest : public ::testing::TestWithParam<int> {};

TEST_P(AlgorithmChoiceTest, IsThatOfRankZero) {
  for (const Algorithm algorithm : kOfAllReduce) {
    const std::string name = absl::StrCat(AlgorithmName(algorithm));
    EXPECT_TRUE(WorldSucceeds("FollowRankZero", GetParam(), {.argument = name}))
        << name;
  }
}

TEST_P(AlgorithmChoiceTest, OthersDoNotCountWhereRankZeroHasNone) {
  EXPECT_TRUE(WorldSucceeds("FollowRankZero", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, AlgorithmChoiceTest,
                         ::testing::Values(2, 3, 5, 8));

}  // namespace
}  // namespace shoal::tests
