// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/communicator.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/pending_operation.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/user_reduction.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

// Rank 1 of 3. Keeps what passes the checks, so that a test sees both what is
// refused and what a call becomes.
class RecordingCommunicator : public Communicator {
 public:
  int rank() const override { return 1; }
  int world_size() const override { return 3; }
  absl::Status status() const override { return absl::OkStatus(); }

  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Call>& started() const { return started_; }
  const std::vector<std::pair<int, int>>& splits() const { return splits_; }
  const absl::Status& reason() const { return reason_; }

 private:
  absl::Status Execute(absl::Span<const Call> calls,
                       const CallOptions& /*options*/) override {
    calls_.assign(calls.begin(), calls.end());
    return absl::OkStatus();
  }
  absl::StatusOr<PendingOperation> Start(
      absl::Span<const Call> calls, const CallOptions& /*options*/) override {
    started_.assign(calls.begin(), calls.end());
    return PendingOperation(absl::OkStatus());
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(
      int color, int key, const CallOptions& /*options*/) override {
    splits_.emplace_back(color, key);
    return nullptr;
  }
  void DoAbort(const absl::Status& reason) override { reason_ = reason; }
  internal::CallLog& log() const override { return log_; }

  std::vector<Call> calls_;
  std::vector<Call> started_;
  std::vector<std::pair<int, int>> splits_;
  absl::Status reason_;
  mutable internal::CallLog log_;
};

class CommunicatorTest : public testing::Test {
 protected:
  // Refused, with all of `words`, and without a call.
  void ExpectRefused(const absl::Status& status,
                     const std::vector<std::string>& words) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const std::string& word : words) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    }
    EXPECT_TRUE(comm_.calls().empty());
  }

  RecordingCommunicator comm_;
  std::vector<float> small_ = std::vector<float>(2);
  std::vector<float> large_ = std::vector<float>(6);
  std::vector<float> other_ = std::vector<float>(6);
};

Buffer Of(std::vector<float>& values) {
  return BufferOf(absl::MakeSpan(values));
}

TEST_F(CommunicatorTest, BufferOfKnowsTypeAndCount) {
  std::vector<std::int64_t> values(5);
  const Buffer buffer = BufferOf(absl::MakeSpan(values));
  EXPECT_EQ(buffer.data, values.data());
  EXPECT_EQ(buffer.count, 5);
  EXPECT_EQ(buffer.dtype, DType::kI64);
  const ConstBuffer constant = BufferOf(absl::MakeConstSpan(values));
  EXPECT_EQ(constant.data, values.data());
  EXPECT_EQ(constant.dtype, DType::kI64);
}

TEST_F(CommunicatorTest, AllReduceBecomesACall) {
  CallOptions options;
  options.algorithm = Algorithm::kRing;
  SHOAL_ASSERT_OK(
      comm_.AllReduce(Of(large_), Of(other_), ReduceOp::kMax, options));
  ASSERT_EQ(comm_.calls().size(), 1u);
  const Call& call = comm_.calls()[0];
  EXPECT_EQ(call.signature.kind, CallKind::kAllReduce);
  EXPECT_EQ(call.signature.count, 6);
  EXPECT_EQ(call.signature.dtype, DType::kF32);
  EXPECT_EQ(call.signature.op, ReduceOp::kMax);
  EXPECT_EQ(call.signature.algorithm, Algorithm::kRing);
  EXPECT_EQ(call.input, large_.data());
  EXPECT_EQ(call.output, other_.data());
  SHOAL_EXPECT_OK(comm_.AllReduce(Of(large_), ReduceOp::kSum));
  EXPECT_EQ(comm_.calls()[0].input, comm_.calls()[0].output);
}

TEST_F(CommunicatorTest, PartsBecomeCallsCountedByPart) {
  SHOAL_ASSERT_OK(
      comm_.ReduceScatter(Of(large_), Of(small_), ReduceOp::kAverage));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kReduceScatter);
  EXPECT_EQ(comm_.calls()[0].signature.count, 2);
  EXPECT_EQ(comm_.calls()[0].signature.op, ReduceOp::kAverage);
  SHOAL_ASSERT_OK(comm_.AllGather(Of(small_), Of(large_)));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kAllGather);
  EXPECT_EQ(comm_.calls()[0].signature.count, 2);
}

TEST_F(CommunicatorTest, BroadcastAndBarrierBecomeCalls) {
  SHOAL_ASSERT_OK(comm_.Broadcast(Of(small_), /*root=*/2));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kBroadcast);
  EXPECT_EQ(comm_.calls()[0].signature.root, 2);
  SHOAL_ASSERT_OK(comm_.Barrier());
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kBarrier);
  EXPECT_EQ(comm_.calls()[0].signature, [] {
    CallSignature barrier;
    barrier.kind = CallKind::kBarrier;
    return barrier;
  }());
}

TEST_F(CommunicatorTest, MessagesBecomeCalls) {
  SHOAL_ASSERT_OK(comm_.Send(Of(small_), /*to=*/0, /*tag=*/7));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kSend);
  EXPECT_EQ(comm_.calls()[0].peer, 0);
  EXPECT_EQ(comm_.calls()[0].tag, 7);
  EXPECT_EQ(comm_.calls()[0].input, small_.data());
  SHOAL_ASSERT_OK(comm_.Recv(Of(small_), /*from=*/2));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kRecv);
  EXPECT_EQ(comm_.calls()[0].output, small_.data());
  SHOAL_ASSERT_OK(comm_.SendRecv(Of(small_), /*to=*/2, Of(large_), /*from=*/0,
                                 /*tag=*/1));
  ASSERT_EQ(comm_.calls().size(), 2u);
  EXPECT_EQ(comm_.calls()[0].peer, 2);
  EXPECT_EQ(comm_.calls()[1].peer, 0);
  EXPECT_EQ(comm_.calls()[1].signature.count, 6);
}

TEST_F(CommunicatorTest, RefusesBadBuffers) {
  Buffer negative = Of(small_);
  negative.count = -1;
  ExpectRefused(comm_.AllReduce(negative, ReduceOp::kSum),
                {"AllReduce", "negative", "-1"});
  Buffer null = Of(small_);
  null.data = nullptr;
  ExpectRefused(comm_.Broadcast(null, 0), {"Broadcast", "null", "2 elements"});
  Buffer huge = Of(small_);
  huge.count = kHuge;
  ExpectRefused(comm_.Send(huge, 0), {"Send", "f32"});
  Buffer unknown = Of(small_);
  unknown.dtype = static_cast<DType>(99);
  ExpectRefused(comm_.Recv(unknown, 0), {"Recv", "99"});
}

TEST_F(CommunicatorTest, EmptyBuffersMayBeNull) {
  const Buffer empty{nullptr, 0, DType::kF32};
  SHOAL_EXPECT_OK(comm_.AllReduce(empty, ReduceOp::kSum));
  SHOAL_EXPECT_OK(comm_.AllGather(empty, empty));
  SHOAL_EXPECT_OK(comm_.SendRecv(empty, 0, empty, 2));
}

TEST_F(CommunicatorTest, RefusesCountsAndTypesThatDoNotFit) {
  ExpectRefused(comm_.AllReduce(Of(large_), Of(small_), ReduceOp::kSum),
                {"input has 6", "output has 2"});
  ExpectRefused(comm_.ReduceScatter(Of(large_), Of(other_), ReduceOp::kSum),
                {"ReduceScatter", "world of 3"});
  ExpectRefused(comm_.AllGather(Of(large_), Of(other_)),
                {"AllGather", "world of 3"});
  Buffer part = Of(small_);
  part.dtype = DType::kI8;
  part.count = kHuge / 2;  // times 3 overflows
  Buffer whole = Of(other_);
  whole.dtype = DType::kI8;
  ExpectRefused(comm_.AllGather(part, whole), {"world of 3"});
  Buffer integers = Of(other_);
  integers.dtype = DType::kI32;
  ExpectRefused(comm_.AllReduce(Of(large_), integers, ReduceOp::kSum),
                {"f32", "i32"});
  SHOAL_EXPECT_OK(comm_.AllReduce(integers, ReduceOp::kOr));
}

TEST_F(CommunicatorTest, RefusesOverlapThatIsNotInPlace) {
  Buffer shifted = Of(large_);
  shifted.data = large_.data() + 1;
  shifted.count = 5;
  Buffer front = Of(large_);
  front.count = 5;
  ExpectRefused(comm_.AllReduce(front, shifted, ReduceOp::kSum), {"overlap"});
  Buffer part = Of(small_);
  part.data = large_.data();  // rank 0's part, but this is rank 1
  ExpectRefused(comm_.AllGather(part, Of(large_)), {"overlap", "part 1"});
  ExpectRefused(comm_.ReduceScatter(Of(large_), part, ReduceOp::kSum),
                {"overlap", "part 1"});
  ExpectRefused(comm_.SendRecv(front, 0, shifted, 2), {"overlap"});
  part.data = large_.data() + 2;
  SHOAL_EXPECT_OK(comm_.AllGather(part, Of(large_)));
  SHOAL_EXPECT_OK(comm_.ReduceScatter(Of(large_), part, ReduceOp::kSum));
}

TEST_F(CommunicatorTest, RefusesRanksOpsTagsAndOptionsThatAreNone) {
  ExpectRefused(comm_.Broadcast(Of(small_), 3), {"root 3", "world of 3"});
  ExpectRefused(comm_.Broadcast(Of(small_), -1), {"root -1"});
  ExpectRefused(comm_.Send(Of(small_), 3), {"receiver 3"});
  ExpectRefused(comm_.Recv(Of(small_), -2), {"sender -2"});
  ExpectRefused(comm_.Send(Of(small_), 1), {"rank 1", "itself"});
  ExpectRefused(comm_.Recv(Of(small_), 1), {"rank 1", "itself"});
  ExpectRefused(comm_.SendRecv(Of(small_), 1, Of(large_), 0), {"itself"});
  ExpectRefused(comm_.Send(Of(small_), 0, -1), {"tag", "-1"});
  ExpectRefused(comm_.AllReduce(Of(small_), static_cast<ReduceOp>(77)), {"77"});
  ExpectRefused(comm_.AllReduce(Of(small_), ReduceOp::kAnd),
                {"AllReduce", "and", "integers", "f32"});
  ExpectRefused(comm_.ReduceScatter(Of(large_), Of(small_), ReduceOp::kXor),
                {"ReduceScatter", "xor", "integers", "f32"});
  ExpectRefused(comm_.AllReduce(Of(small_), ReduceOp::kUser),
                {"AllReduce", "user_reduction", "no function"});
  CallOptions options;
  const UserReduction empty;
  options.user_reduction = &empty;
  ExpectRefused(comm_.AllReduce(Of(small_), ReduceOp::kUser, options),
                {"AllReduce", "user_reduction", "no function"});
  const UserReduction nothing = [](const void*, const void*, void*,
                                   std::int64_t) {};
  options.user_reduction = &nothing;
  ExpectRefused(comm_.AllReduce(Of(small_), ReduceOp::kMax, options),
                {"AllReduce", "user_reduction", "max", "kUser"});
  options = {};
  options.timeout = absl::ZeroDuration();
  ExpectRefused(comm_.Barrier(options), {"Barrier", "time-out"});
  options = {};
  options.algorithm = static_cast<Algorithm>(88);
  ExpectRefused(comm_.Barrier(options), {"88"});
  options.algorithm = Algorithm::kRing;
  ExpectRefused(comm_.Send(Of(small_), 0, 0, options), {"ring"});
}

TEST_F(CommunicatorTest, SendRecvWithItselfCopies) {
  small_ = {3, 4};
  std::vector<float> copy(2);
  SHOAL_EXPECT_OK(comm_.SendRecv(Of(small_), 1, Of(copy), 1));
  EXPECT_EQ(copy, small_);
  EXPECT_TRUE(comm_.calls().empty());
  ExpectRefused(comm_.SendRecv(Of(small_), 1, Of(large_), 1),
                {"f32 x 2", "f32 x 6"});
}

TEST_F(CommunicatorTest, RootedCollectivesBecomeCalls) {
  // This is rank 1.
  SHOAL_ASSERT_OK(comm_.Reduce(Of(large_), Of(other_), ReduceOp::kMin, 1));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kReduce);
  EXPECT_EQ(comm_.calls()[0].signature.root, 1);
  EXPECT_EQ(comm_.calls()[0].output, other_.data());
  SHOAL_ASSERT_OK(comm_.Reduce(Of(large_), Buffer(), ReduceOp::kMin, 2));
  EXPECT_EQ(comm_.calls()[0].output, nullptr);
  SHOAL_ASSERT_OK(comm_.Gather(Of(small_), Of(large_), 1));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kGather);
  EXPECT_EQ(comm_.calls()[0].signature.count, 2);
  SHOAL_ASSERT_OK(comm_.Scatter(Of(large_), Of(small_), 1));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kScatter);
  EXPECT_EQ(comm_.calls()[0].signature.count, 2);
  SHOAL_ASSERT_OK(comm_.Scatter(ConstBuffer(), Of(small_), 0));
  EXPECT_EQ(comm_.calls()[0].input, nullptr);
}

TEST_F(CommunicatorTest, ExchangesBecomeCalls) {
  SHOAL_ASSERT_OK(comm_.AllToAll(Of(large_), Of(other_)));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kAllToAll);
  EXPECT_EQ(comm_.calls()[0].signature.count, 2);
  SHOAL_ASSERT_OK(comm_.AllGatherV(Of(small_), Of(large_), {1, 2, 3}));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kAllGatherV);
  EXPECT_EQ(comm_.calls()[0].signature.count, 6);
  EXPECT_EQ(comm_.calls()[0].signature.parts_digest, DigestOf({1, 2, 3}));
  EXPECT_EQ(comm_.calls()[0].counts, (std::vector<std::int64_t>{1, 2, 3}));
  SHOAL_ASSERT_OK(
      comm_.AllToAllV(Of(small_), {1, 0, 1}, Of(large_), {5, 0, 1}));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kAllToAllV);
  EXPECT_EQ(comm_.calls()[0].signature.count, 0);
  EXPECT_EQ(comm_.calls()[0].counts,
            (std::vector<std::int64_t>{1, 0, 1, 5, 0, 1}));
  SHOAL_ASSERT_OK(
      comm_.AllReduceCoalesced({Of(small_), Of(large_)}, ReduceOp::kSum));
  EXPECT_EQ(comm_.calls()[0].signature.kind, CallKind::kAllReduce);
  EXPECT_EQ(comm_.calls()[0].signature.count, 8);
  EXPECT_EQ(comm_.calls()[0].signature.parts_digest, DigestOf({2, 6}));
  SHOAL_ASSERT_OK(comm_.AllReduceCoalesced({Of(small_)}, ReduceOp::kSum));
  EXPECT_EQ(comm_.calls()[0].signature.parts_digest, 0u);
  EXPECT_EQ(comm_.calls()[0].output, small_.data());
}

TEST_F(CommunicatorTest, RefusesRootedArgumentsThatDoNotFit) {
  ExpectRefused(comm_.Reduce(Of(large_), Of(small_), ReduceOp::kSum, 1),
                {"Reduce", "input has 6", "output has 2"});
  ExpectRefused(comm_.Reduce(Of(large_), ReduceOp::kSum, 3), {"root 3"});
  ExpectRefused(comm_.Gather(Of(large_), Of(small_), 1), {"world of 3"});
  ExpectRefused(comm_.Scatter(Of(small_), Of(large_), 1), {"world of 3"});
  Buffer part = Of(small_);
  part.data = large_.data();  // rank 0's part, but this is rank 1
  ExpectRefused(comm_.Gather(part, Of(large_), 1), {"overlap", "part 1"});
  ExpectRefused(comm_.Scatter(Of(large_), part, 1), {"overlap", "part 1"});
}

TEST_F(CommunicatorTest, RefusesUnequalPartsThatDoNotFit) {
  ExpectRefused(comm_.AllToAll(Of(small_), Of(small_)),
                {"AllToAll", "2 elements", "3 equal parts"});
  ExpectRefused(comm_.AllGatherV(Of(small_), Of(large_), {4, 2}),
                {"AllGatherV", "counts has 2", "3 ranks"});
  ExpectRefused(comm_.AllGatherV(Of(small_), Of(large_), {3, 2, 2}),
                {"counts (3 + 2 + 2) is more than output has elements (6)"});
  ExpectRefused(comm_.AllGatherV(Of(small_), Of(large_), {1, 2, 2}), {"less"});
  ExpectRefused(comm_.AllGatherV(Of(small_), Of(large_), {5, 2, -1}),
                {"negative count -1"});
  ExpectRefused(comm_.AllGatherV(Of(small_), Of(large_), {kHuge, 2, kHuge}),
                {"more"});
  ExpectRefused(comm_.AllGatherV(Of(small_), Of(large_), {2, 3, 1}),
                {"input has 2", "counts[1]", "is 3"});
  ExpectRefused(comm_.AllToAllV(Of(small_), {1, 1, 0}, Of(large_), {6, 0, 0}),
                {"AllToAllV", "sends itself 1", "receives 0"});
  ExpectRefused(comm_.AllToAllV(Of(large_), {2, 2, 2}, Of(large_), {2, 2, 2}),
                {"overlap"});
}

TEST_F(CommunicatorTest, RefusesBuffersThatCannotBeCoalesced) {
  ExpectRefused(comm_.AllReduceCoalesced({}, ReduceOp::kSum), {"at least one"});
  Buffer integers = Of(small_);
  integers.dtype = DType::kI32;
  ExpectRefused(
      comm_.AllReduceCoalesced({Of(large_), integers}, ReduceOp::kSum),
      {"buffer 1 is i32"});
  Buffer back = Of(large_);
  back.data = large_.data() + 5;
  back.count = 1;
  ExpectRefused(
      comm_.AllReduceCoalesced({back, Of(small_), Of(large_)}, ReduceOp::kSum),
      {"overlap"});
}

TEST_F(CommunicatorTest, AbortWithoutAReasonIsCancelled) {
  comm_.Abort(absl::DataLossError("why"));
  EXPECT_THAT(comm_.reason(), StatusIs(absl::StatusCode::kDataLoss, "why"));
  comm_.Abort(absl::OkStatus());
  EXPECT_EQ(comm_.reason().code(), absl::StatusCode::kCancelled);
}

// What is started is the same call as what blocks, and is not executed.
TEST_F(CommunicatorTest, StartedFormsMakeTheSameCalls) {
  const Buffer two = Of(small_);
  const Buffer six = Of(large_);
  const Buffer six_too = Of(other_);
  const std::vector<std::int64_t> counts = {2, 2, 2};
  const auto expect_same = [this](const absl::Status& blocking,
                                  absl::StatusOr<PendingOperation> started) {
    SHOAL_EXPECT_OK(blocking);
    SHOAL_ASSERT_OK(started);
    SHOAL_EXPECT_OK(started->Wait());
    ASSERT_EQ(comm_.started().size(), comm_.calls().size());
    for (std::size_t i = 0; i < comm_.calls().size(); ++i) {
      EXPECT_EQ(comm_.started()[i].ToString(), comm_.calls()[i].ToString());
      EXPECT_EQ(comm_.started()[i].input, comm_.calls()[i].input);
      EXPECT_EQ(comm_.started()[i].output, comm_.calls()[i].output);
    }
  };
  const ReduceOp op = ReduceOp::kMax;
  expect_same(comm_.AllReduce(six, six_too, op),
              comm_.StartAllReduce(six, six_too, op));
  expect_same(comm_.AllReduce(six, op), comm_.StartAllReduce(six, op));
  expect_same(comm_.ReduceScatter(six, two, op),
              comm_.StartReduceScatter(six, two, op));
  expect_same(comm_.AllGather(two, six), comm_.StartAllGather(two, six));
  expect_same(comm_.AllGatherV(two, six, counts),
              comm_.StartAllGatherV(two, six, counts));
  expect_same(comm_.Reduce(six, six_too, op, 1),
              comm_.StartReduce(six, six_too, op, 1));
  expect_same(comm_.Reduce(six, op, 2), comm_.StartReduce(six, op, 2));
  expect_same(comm_.Gather(two, six, 1), comm_.StartGather(two, six, 1));
  expect_same(comm_.Scatter(six, two, 1), comm_.StartScatter(six, two, 1));
  expect_same(comm_.AllToAll(six, six_too), comm_.StartAllToAll(six, six_too));
  expect_same(comm_.AllToAllV(six, counts, six_too, counts),
              comm_.StartAllToAllV(six, counts, six_too, counts));
  expect_same(comm_.Broadcast(six, 2), comm_.StartBroadcast(six, 2));
  expect_same(comm_.Barrier(), comm_.StartBarrier());
  expect_same(comm_.Send(six, 2, 7), comm_.StartSend(six, 2, 7));
  expect_same(comm_.Recv(six, 2, 7), comm_.StartRecv(six, 2, 7));
  expect_same(comm_.SendRecv(six, 2, six_too, 0, 7),
              comm_.StartSendRecv(six, 2, six_too, 0, 7));
  expect_same(comm_.AllReduceCoalesced({&six, 1}, op),
              comm_.StartAllReduceCoalesced({&six, 1}, op));
  large_[3] = 5;
  other_[3] = 4;
  SHOAL_EXPECT_OK(comm_.StartSendRecv(six, 1, six_too, 1));
  EXPECT_EQ(other_[3], 5);
  EXPECT_THAT(comm_.StartSend(six, 3),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CommunicatorTest, SplitPassesColorAndKeyOn) {
  SHOAL_EXPECT_OK(comm_.Split(-1, 5));
  CallOptions options;
  options.algorithm = Algorithm::kRing;
  EXPECT_THAT(comm_.Split(1, 5, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ring")));
  EXPECT_EQ(comm_.splits(), (std::vector<std::pair<int, int>>{{-1, 5}}));
}

}  // namespace
}  // namespace shoal
