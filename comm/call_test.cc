// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/call.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal {
namespace {

TEST(CallKindTest, ValuesOfTheWireFormat) {
  EXPECT_EQ(static_cast<int>(CallKind::kAllReduce), 1);
  EXPECT_EQ(static_cast<int>(CallKind::kReduceScatter), 2);
  EXPECT_EQ(static_cast<int>(CallKind::kAllGather), 3);
  EXPECT_EQ(static_cast<int>(CallKind::kBroadcast), 4);
  EXPECT_EQ(static_cast<int>(CallKind::kBarrier), 5);
  EXPECT_EQ(static_cast<int>(CallKind::kSend), 6);
  EXPECT_EQ(static_cast<int>(CallKind::kRecv), 7);
  EXPECT_EQ(static_cast<int>(CallKind::kReduce), 8);
  EXPECT_EQ(static_cast<int>(CallKind::kGather), 9);
  EXPECT_EQ(static_cast<int>(CallKind::kScatter), 10);
  EXPECT_EQ(static_cast<int>(CallKind::kAllToAll), 11);
  EXPECT_EQ(static_cast<int>(CallKind::kAllGatherV), 12);
  EXPECT_EQ(static_cast<int>(CallKind::kAllToAllV), 13);
}

TEST(CallKindTest, ValidityAndNames) {
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(IsValidCallKind(static_cast<CallKind>(i)), i >= 1 && i <= 13)
        << i;
  }
  EXPECT_EQ(CallKindName(CallKind::kAllReduce), "AllReduce");
  EXPECT_EQ(CallKindName(CallKind::kReduceScatter), "ReduceScatter");
  EXPECT_EQ(CallKindName(CallKind::kAllGather), "AllGather");
  EXPECT_EQ(CallKindName(CallKind::kBroadcast), "Broadcast");
  EXPECT_EQ(CallKindName(CallKind::kBarrier), "Barrier");
  EXPECT_EQ(CallKindName(CallKind::kSend), "Send");
  EXPECT_EQ(CallKindName(CallKind::kRecv), "Recv");
  EXPECT_EQ(CallKindName(CallKind::kReduce), "Reduce");
  EXPECT_EQ(CallKindName(CallKind::kGather), "Gather");
  EXPECT_EQ(CallKindName(CallKind::kScatter), "Scatter");
  EXPECT_EQ(CallKindName(CallKind::kAllToAll), "AllToAll");
  EXPECT_EQ(CallKindName(CallKind::kAllGatherV), "AllGatherV");
  EXPECT_EQ(CallKindName(CallKind::kAllToAllV), "AllToAllV");
}

TEST(CallKindTest, WhatEachHas) {
  for (int i = 0; i < 256; ++i) {
    const CallKind kind = static_cast<CallKind>(i);
    EXPECT_EQ(IsCollective(kind), IsValidCallKind(kind) &&
                                      kind != CallKind::kSend &&
                                      kind != CallKind::kRecv)
        << i;
  }
  EXPECT_TRUE(HasRoot(CallKind::kScatter));
  EXPECT_FALSE(HasRoot(CallKind::kAllGather));
  EXPECT_TRUE(HasReduction(CallKind::kReduce));
  EXPECT_FALSE(HasReduction(CallKind::kBroadcast));
}

CallSignature Signature(CallKind kind, DType dtype, ReduceOp op,
                        Algorithm algorithm, std::int64_t count,
                        std::int32_t root) {
  CallSignature signature;
  signature.kind = kind;
  signature.dtype = dtype;
  signature.op = op;
  signature.algorithm = algorithm;
  signature.count = count;
  signature.root = root;
  return signature;
}

TEST(CallSignatureTest, Texts) {
  EXPECT_EQ(Signature(CallKind::kAllReduce, DType::kF32, ReduceOp::kSum,
                      Algorithm::kRing, 100, 0)
                .ToString(),
            "AllReduce(f32 x 100, sum, ring)");
  EXPECT_EQ(Signature(CallKind::kReduceScatter, DType::kBF16, ReduceOp::kMax,
                      Algorithm::kAuto, 0, 0)
                .ToString(),
            "ReduceScatter(bf16 x 0, max, auto)");
  EXPECT_EQ(Signature(CallKind::kAllGather, DType::kI64, ReduceOp::kSum,
                      Algorithm::kRing, 5, 0)
                .ToString(),
            "AllGather(i64 x 5, ring)");
  EXPECT_EQ(Signature(CallKind::kBroadcast, DType::kU8, ReduceOp::kSum,
                      Algorithm::kBinomialTree, 3, 1)
                .ToString(),
            "Broadcast(u8 x 3, root 1, binomial-tree)");
  EXPECT_EQ(Signature(CallKind::kBarrier, DType::kU8, ReduceOp::kSum,
                      Algorithm::kDissemination, 0, 0)
                .ToString(),
            "Barrier(dissemination)");
  EXPECT_EQ(Signature(CallKind::kSend, DType::kF64, ReduceOp::kSum,
                      Algorithm::kAuto, 7, 0)
                .ToString(),
            "Send(f64 x 7)");
  EXPECT_EQ(Signature(CallKind::kRecv, DType::kF16, ReduceOp::kSum,
                      Algorithm::kAuto, 7, 0)
                .ToString(),
            "Recv(f16 x 7)");
  EXPECT_EQ(Signature(CallKind::kReduce, DType::kF32, ReduceOp::kMin,
                      Algorithm::kTree, 7, 2)
                .ToString(),
            "Reduce(f32 x 7, min, root 2, tree)");
  EXPECT_EQ(Signature(CallKind::kScatter, DType::kF32, ReduceOp::kSum,
                      Algorithm::kLinear, 7, 2)
                .ToString(),
            "Scatter(f32 x 7, root 2, linear)");
  EXPECT_EQ(Signature(CallKind::kAllToAll, DType::kF32, ReduceOp::kSum,
                      Algorithm::kPairwise, 7, 0)
                .ToString(),
            "AllToAll(f32 x 7, pairwise)");
}

TEST(CallSignatureTest, TextsOfUnequalParts) {
  const std::int64_t parts[] = {2, 0, 7};
  CallSignature gather = Signature(CallKind::kAllGatherV, DType::kF32,
                                   ReduceOp::kSum, Algorithm::kRing, 9, 0);
  gather.parts_digest = 0xABC;
  EXPECT_EQ(gather.ToString(parts), "AllGatherV(f32 x 9 = 2 + 0 + 7, ring)");
  EXPECT_EQ(gather.ToString(), "AllGatherV(f32 x 9 in parts abc, ring)");
  const CallSignature exchange =
      Signature(CallKind::kAllToAllV, DType::kU8, ReduceOp::kSum,
                Algorithm::kPairwise, 0, 0);
  const std::int64_t both[] = {1, 2, 3, 4};
  EXPECT_EQ(exchange.ToString(both),
            "AllToAllV(u8, sends 1 + 2, receives 3 + 4, pairwise)");
  EXPECT_EQ(exchange.ToString(), "AllToAllV(u8, pairwise)");
  const std::vector<std::int64_t> many(100, 1);
  EXPECT_EQ(gather.ToString(many),
            "AllGatherV(f32 x 9 = 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + "
            "1 + 1 + 1 + 1 + 1 + ... (100 parts), ring)");
}

TEST(DigestTest, TellsListsApart) {
  const std::vector<std::vector<std::int64_t>> lists = {
      {}, {0}, {0, 0}, {1}, {1, 0}, {0, 1}, {1, 2, 3}, {3, 2, 1}, {1, 2, 4}};
  std::set<std::uint64_t> digests = {0};
  for (const auto& list : lists) digests.insert(DigestOf(list));
  EXPECT_EQ(digests.size(), lists.size() + 1);
  // Part of the wire format.
  EXPECT_EQ(DigestOf({1, 2, 3}), 0xA24160165C57B923ULL);
}

// What a peer sent may be anything at all.
TEST(CallSignatureTest, TextOfWhatIsNoCall) {
  EXPECT_EQ(Signature(static_cast<CallKind>(77), DType::kF16, ReduceOp::kSum,
                      Algorithm::kAuto, 7, 0)
                .ToString(),
            "unknown call(77)");
  EXPECT_EQ(
      Signature(CallKind::kAllReduce, static_cast<DType>(9),
                static_cast<ReduceOp>(88), static_cast<Algorithm>(77), -1, 0)
          .ToString(),
      "AllReduce(dtype(9) x -1, op(88), algorithm(77))");
}

TEST(CallSignatureTest, EveryFieldCounts) {
  const CallSignature base =
      Signature(CallKind::kAllReduce, DType::kF32, ReduceOp::kSum,
                Algorithm::kRing, 100, 0);
  std::vector<CallSignature> others(8, base);
  others[0].kind = CallKind::kReduceScatter;
  others[1].dtype = DType::kF64;
  others[2].op = ReduceOp::kMax;
  others[3].algorithm = Algorithm::kRecursiveDoubling;
  others[4].count = 101;
  others[5].root = 1;
  others[6].parts_digest = 1;
  others[7].wire = WireFormat::kBF16;
  EXPECT_EQ(others[7].ToString(), "AllReduce(f32 x 100, sum, ring, wire bf16)");
  EXPECT_EQ(base, CallSignature(base));
  for (const CallSignature& other : others) {
    EXPECT_NE(base, other) << other.ToString();
    EXPECT_FALSE(base == other);
  }
}

TEST(CallTest, MessagesNameTheOtherRankAndTheTag) {
  Call call;
  call.signature = Signature(CallKind::kSend, DType::kF32, ReduceOp::kSum,
                             Algorithm::kAuto, 10, 0);
  call.peer = 3;
  call.tag = 5;
  EXPECT_EQ(call.ToString(), "Send(f32 x 10 to rank 3, tag 5)");
  call.signature.kind = CallKind::kRecv;
  EXPECT_EQ(call.ToString(), "Recv(f32 x 10 from rank 3, tag 5)");
  call.signature.kind = CallKind::kBarrier;
  EXPECT_EQ(call.ToString(), call.signature.ToString());
}

std::int64_t DataBytesOf(CallKind kind, int rank,
                         std::vector<std::int64_t> counts = {}) {
  Call call;
  call.signature =
      Signature(kind, DType::kF16, ReduceOp::kSum, Algorithm::kAuto, 10, 1);
  if (kind == CallKind::kBarrier || kind == CallKind::kAllToAllV) {
    call.signature.count = 0;
  }
  call.counts = std::move(counts);
  return DataBytes(call, rank, /*world_size=*/3);
}

TEST(CallTest, DataBytesAreThoseOfTheLargerBuffer) {
  EXPECT_EQ(DataBytesOf(CallKind::kBarrier, 0), 0);
  for (const CallKind kind :
       {CallKind::kAllReduce, CallKind::kReduce, CallKind::kBroadcast,
        CallKind::kAllGatherV, CallKind::kSend, CallKind::kRecv}) {
    EXPECT_EQ(DataBytesOf(kind, 0), 20) << CallKindName(kind);
  }
  for (const CallKind kind :
       {CallKind::kReduceScatter, CallKind::kAllGather, CallKind::kAllToAll}) {
    EXPECT_EQ(DataBytesOf(kind, 0), 60) << CallKindName(kind);
  }
  for (const CallKind kind : {CallKind::kGather, CallKind::kScatter}) {
    EXPECT_EQ(DataBytesOf(kind, 0), 20) << CallKindName(kind);
    EXPECT_EQ(DataBytesOf(kind, 1), 60) << CallKindName(kind);
  }
  EXPECT_EQ(DataBytesOf(CallKind::kAllToAllV, 0, {1, 2, 3, 1, 1, 1}), 12);
  EXPECT_EQ(DataBytesOf(CallKind::kAllToAllV, 0, {0, 0, 3, 4, 5, 6}), 30);
}

}  // namespace
}  // namespace shoal
