// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/identity_communicator.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

namespace shoal {
namespace {

Buffer Of(std::vector<float>& values) {
  return BufferOf(absl::MakeSpan(values));
}

TEST(IdentityCommunicatorTest, IsAWorldOfOne) {
  const IdentityCommunicator comm;
  EXPECT_EQ(comm.rank(), 0);
  EXPECT_EQ(comm.world_size(), 1);
  SHOAL_EXPECT_OK(comm.status());
}

TEST(IdentityCommunicatorTest, EveryCollectiveIsTheIdentity) {
  IdentityCommunicator comm;
  const std::vector<float> values = {1.5F, -0.0F, 3e38F};
  for (const ReduceOp op : kAllReduceOps) {
    if (!ReduceOpTakes(op, DType::kF32)) continue;
    std::vector<float> input = values;
    std::vector<float> output(3);
    SHOAL_EXPECT_OK(comm.AllReduce(Of(input), Of(output), op));
    EXPECT_EQ(output, values);
    output.assign(3, 0);
    SHOAL_EXPECT_OK(comm.ReduceScatter(Of(input), Of(output), op));
    EXPECT_EQ(output, values);
    SHOAL_EXPECT_OK(comm.AllReduce(Of(input), op));
    EXPECT_EQ(input, values);
  }
  std::vector<float> input = values;
  std::vector<float> output(3);
  SHOAL_EXPECT_OK(comm.AllGather(Of(input), Of(output)));
  EXPECT_EQ(output, values);
  SHOAL_EXPECT_OK(comm.Broadcast(Of(output), 0));
  EXPECT_EQ(output, values);
  SHOAL_EXPECT_OK(comm.Barrier());
  const auto expect_copied = [&](const absl::Status& status) {
    SHOAL_EXPECT_OK(status);
    EXPECT_EQ(output, values);
    output.assign(3, 0);
  };
  output.assign(3, 0);
  expect_copied(comm.Reduce(Of(input), Of(output), ReduceOp::kAverage, 0));
  expect_copied(comm.Gather(Of(input), Of(output), 0));
  expect_copied(comm.Scatter(Of(input), Of(output), 0));
  expect_copied(comm.AllToAll(Of(input), Of(output)));
  expect_copied(comm.AllGatherV(Of(input), Of(output), {3}));
  expect_copied(comm.AllToAllV(Of(input), {3}, Of(output), {3}));
  std::string text = "as it was";
  SHOAL_EXPECT_OK(comm.BroadcastString(&text, 0));
  EXPECT_EQ(text, "as it was");
  SHOAL_EXPECT_OK(
      comm.AllReduceCoalesced({Of(input), Of(output)}, ReduceOp::kSum));
  EXPECT_EQ(input, values);
}

TEST(IdentityCommunicatorTest, RefusesWhatEveryWorldRefuses) {
  IdentityCommunicator comm;
  std::vector<float> values(2);
  EXPECT_THAT(comm.Send(Of(values), 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(comm.Broadcast(Of(values), 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  CallOptions options;
  options.algorithm = Algorithm::kBinomialTree;
  EXPECT_THAT(comm.AllReduce(Of(values), ReduceOp::kSum, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(IdentityCommunicatorTest, FirstAbortStays) {
  IdentityCommunicator comm;
  comm.Abort(absl::DataLossError("first"));
  comm.Abort(absl::InternalError("second"));
  std::vector<float> values(2);
  EXPECT_THAT(comm.AllReduce(Of(values), ReduceOp::kSum),
              StatusIs(absl::StatusCode::kDataLoss, "first"));
  EXPECT_THAT(comm.SendRecv(Of(values), 0, Buffer{}, 0),
              StatusIs(absl::StatusCode::kDataLoss, "first"));
  EXPECT_THAT(comm.status(), StatusIs(absl::StatusCode::kDataLoss, "first"));
}

}  // namespace
}  // namespace shoal
