// SPDX-License-Identifier: Apache-2.0
//
// What the schedules look like. That they are right is shown by
// schedule_proof_test.cc.

#include "shoal/comm/schedule.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CallSignature Signature(CallKind kind, Algorithm algorithm, std::int64_t count,
                        int root = 0) {
  CallSignature signature;
  signature.kind = kind;
  signature.dtype = kind == CallKind::kBarrier ? DType::kU8 : DType::kF32;
  signature.algorithm = algorithm;
  signature.count = count;
  signature.root = root;
  return signature;
}

std::string Text(const CallSignature& signature, int rank, int world_size,
                 bool in_place) {
  const auto schedule = BuildSchedule(signature, rank, world_size, in_place);
  return schedule.ok() ? schedule->ToString() : schedule.status().ToString();
}

// A schedule of any kind: parts of `count` elements where they may be unequal.
absl::StatusOr<Schedule> BuildAny(CallKind kind, Algorithm algorithm,
                                  std::int64_t count, int rank, int world_size,
                                  bool in_place) {
  ScheduleRequest request;
  request.signature = Signature(kind, algorithm, count);
  request.rank = rank;
  request.world_size = world_size;
  request.in_place = in_place;
  if (kind == CallKind::kAllGatherV) {
    request.counts.assign(world_size, count);
    request.signature.count = count * world_size;
  }
  if (kind == CallKind::kAllToAllV) {
    request.counts.assign(2 * world_size, count);
    request.signature.count = 0;
  }
  return BuildSchedule(request);
}

TEST(EvenPartTest, PartsAreDisjointCompleteAndEven) {
  for (int parts = 1; parts <= 20; ++parts) {
    for (std::int64_t count = 0; count <= 50; ++count) {
      std::int64_t end = 0;
      for (int i = 0; i < parts; ++i) {
        const BufferRange part = EvenPart(BufferId::kInput, count, parts, i);
        EXPECT_EQ(part.buffer, BufferId::kInput);
        EXPECT_EQ(part.begin, end);
        EXPECT_EQ(part.count, count / parts + (i < count % parts ? 1 : 0));
        end = part.end();
      }
      EXPECT_EQ(end, count);
    }
  }
}

TEST(EvenPartTest, LargeCounts) {
  const std::int64_t count = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(EvenPart(BufferId::kOutput, count, 64, 63).end(), count);
}

TEST(ScheduleTest, RingAllReduce) {
  EXPECT_EQ(Text(Signature(CallKind::kAllReduce, Algorithm::kRing, 7), 1, 3,
                 /*in_place=*/false),
            "rank 1 of 3, AllReduce(f32 x 7, sum, ring)\n"
            "  0: send input[0, 3) to rank 2\n"
            "  1: output[5, 7) = (from rank 0) op input[5, 7)\n"
            "  2: send output[5, 7) to rank 2\n"
            "  3: output[3, 5) = (from rank 0) op input[3, 5), completes\n"
            "  4: send output[3, 5) to rank 2\n"
            "  5: receive output[0, 3) from rank 0\n"
            "  6: send output[0, 3) to rank 2\n"
            "  7: receive output[5, 7) from rank 0\n");
  EXPECT_EQ(Text(Signature(CallKind::kAllReduce, Algorithm::kRing, 2), 0, 2,
                 /*in_place=*/true),
            "rank 0 of 2, AllReduce(f32 x 2, sum, ring)\n"
            "  0: send output[1, 2) to rank 1\n"
            "  1: output[0, 1) = (from rank 1) op output[0, 1), completes\n"
            "  2: send output[0, 1) to rank 1\n"
            "  3: receive output[1, 2) from rank 1\n");
}

TEST(ScheduleTest, RingReduceScatterNeedsScratchInPlaceOnly) {
  const CallSignature signature =
      Signature(CallKind::kReduceScatter, Algorithm::kRing, 5);
  EXPECT_EQ(Text(signature, 0, 3, /*in_place=*/false),
            "rank 0 of 3, ReduceScatter(f32 x 5, sum, ring)\n"
            "  0: send input[10, 15) to rank 1\n"
            "  1: output[0, 5) = (from rank 2) op input[5, 10)\n"
            "  2: send output[0, 5) to rank 1\n"
            "  3: output[0, 5) = (from rank 2) op input[0, 5), completes\n");
  EXPECT_EQ(Text(signature, 0, 3, /*in_place=*/true),
            "rank 0 of 3, ReduceScatter(f32 x 5, sum, ring), scratch 5\n"
            "  0: send input[10, 15) to rank 1\n"
            "  1: scratch[0, 5) = (from rank 2) op input[5, 10)\n"
            "  2: send scratch[0, 5) to rank 1\n"
            "  3: output[0, 5) = (from rank 2) op output[0, 5), completes\n");
  EXPECT_EQ(Text(signature, 1, 2, /*in_place=*/true),
            "rank 1 of 2, ReduceScatter(f32 x 5, sum, ring)\n"
            "  0: send input[0, 5) to rank 0\n"
            "  1: output[0, 5) = (from rank 0) op output[0, 5), completes\n");
}

TEST(ScheduleTest, RingAllGather) {
  const CallSignature signature =
      Signature(CallKind::kAllGather, Algorithm::kRing, 4);
  EXPECT_EQ(Text(signature, 2, 3, /*in_place=*/false),
            "rank 2 of 3, AllGather(f32 x 4, ring)\n"
            "  0: send input[0, 4) to rank 0\n"
            "  1: output[8, 12) = input[0, 4)\n"
            "  2: receive output[4, 8) from rank 1\n"
            "  3: send output[4, 8) to rank 0\n"
            "  4: receive output[0, 4) from rank 1\n");
  EXPECT_EQ(Text(signature, 2, 3, /*in_place=*/true),
            "rank 2 of 3, AllGather(f32 x 4, ring)\n"
            "  0: send output[8, 12) to rank 0\n"
            "  1: receive output[4, 8) from rank 1\n"
            "  2: send output[4, 8) to rank 0\n"
            "  3: receive output[0, 4) from rank 1\n");
}

TEST(ScheduleTest, RecursiveDoubling) {
  const CallSignature signature =
      Signature(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 6);
  EXPECT_EQ(Text(signature, 2, 4, /*in_place=*/false),
            "rank 2 of 4, AllReduce(f32 x 6, sum, recursive-doubling)\n"
            "  0: send input[0, 6) to rank 3\n"
            "  1: output[0, 6) = input[0, 6) op (from rank 3)\n"
            "  2: send output[0, 6) to rank 0\n"
            "  3: output[0, 6) = (from rank 0) op output[0, 6), completes\n");
  // Five ranks: 0 and 1 add up first.
  EXPECT_EQ(Text(signature, 0, 5, /*in_place=*/true),
            "rank 0 of 5, AllReduce(f32 x 6, sum, recursive-doubling)\n"
            "  0: output[0, 6) = output[0, 6) op (from rank 1)\n"
            "  1: send output[0, 6) to rank 2\n"
            "  2: output[0, 6) = output[0, 6) op (from rank 2)\n"
            "  3: send output[0, 6) to rank 3\n"
            "  4: output[0, 6) = output[0, 6) op (from rank 3), completes\n"
            "  5: send output[0, 6) to rank 1\n");
  EXPECT_EQ(Text(signature, 1, 5, /*in_place=*/false),
            "rank 1 of 5, AllReduce(f32 x 6, sum, recursive-doubling)\n"
            "  0: send input[0, 6) to rank 0\n"
            "  1: receive output[0, 6) from rank 0\n");
}

TEST(ScheduleTest, Direct) {
  EXPECT_EQ(Text(Signature(CallKind::kAllReduce, Algorithm::kDirect, 7), 1, 3,
                 /*in_place=*/false),
            "rank 1 of 3, AllReduce(f32 x 7, sum, direct), scratch 4\n"
            "  0: send input[5, 7) to rank 2\n"
            "  1: receive scratch[0, 2) from rank 0\n"
            "  2: send input[0, 3) to rank 0\n"
            "  3: receive scratch[2, 4) from rank 2\n"
            "  4: output[3, 5) = scratch[0, 2) op input[3, 5) op scratch[2, 4),"
            " completes\n"
            "  5: send output[3, 5) to rank 2\n"
            "  6: receive output[0, 3) from rank 0\n"
            "  7: send output[3, 5) to rank 0\n"
            "  8: receive output[5, 7) from rank 2\n");
  EXPECT_EQ(Text(Signature(CallKind::kAllReduce, Algorithm::kOneShot, 7), 0, 2,
                 /*in_place=*/true),
            "rank 0 of 2, AllReduce(f32 x 7, sum, one-shot), scratch 7\n"
            "  0: send output[0, 7) to rank 1\n"
            "  1: receive scratch[0, 7) from rank 1\n"
            "  2: output[0, 7) = output[0, 7) op scratch[0, 7), completes\n");
}

TEST(ScheduleTest, HalvingDoubling) {
  EXPECT_EQ(
      Text(Signature(CallKind::kAllReduce, Algorithm::kHalvingDoubling, 7), 2,
           4, /*in_place=*/false),
      "rank 2 of 4, AllReduce(f32 x 7, sum, halving-doubling)\n"
      "  0: send input[4, 7) to rank 3\n"
      "  1: output[0, 4) = input[0, 4) op (from rank 3)\n"
      "  2: send output[0, 2) to rank 0\n"
      "  3: output[2, 4) = (from rank 0) op output[2, 4), completes\n"
      "  4: send output[2, 4) to rank 0\n"
      "  5: receive output[0, 2) from rank 0\n"
      "  6: send output[0, 4) to rank 3\n"
      "  7: receive output[4, 7) from rank 3\n");
}

TEST(ScheduleTest, TreesAndChains) {
  const CallSignature tree =
      Signature(CallKind::kReduce, Algorithm::kTree, 4, /*root=*/3);
  EXPECT_EQ(Text(tree, 3, 5, /*in_place=*/true),
            "rank 3 of 5, Reduce(f32 x 4, sum, root 3, tree)\n"
            "  0: output[0, 4) = (from rank 2) op output[0, 4)\n"
            "  1: output[0, 4) = (from rank 0) op output[0, 4)\n"
            "  2: output[0, 4) = output[0, 4) op (from rank 4), completes\n");
  EXPECT_EQ(Text(tree, 0, 5, /*in_place=*/true),
            "rank 0 of 5, Reduce(f32 x 4, sum, root 3, tree), scratch 4\n"
            "  0: scratch[0, 4) = input[0, 4) op (from rank 1)\n"
            "  1: send scratch[0, 4) to rank 3\n");
  const CallSignature chain =
      Signature(CallKind::kReduce, Algorithm::kChain, 4, /*root=*/0);
  EXPECT_EQ(Text(chain, 2, 3, /*in_place=*/false),
            "rank 2 of 3, Reduce(f32 x 4, sum, root 0, chain), scratch 4\n"
            "  0: scratch[0, 4) = (from rank 1) op input[0, 4)\n"
            "  1: send scratch[0, 4) to rank 0\n");
  EXPECT_EQ(Text(Signature(CallKind::kBroadcast, Algorithm::kChain, 4, 2), 0, 3,
                 /*in_place=*/true),
            "rank 0 of 3, Broadcast(f32 x 4, root 2, chain)\n"
            "  0: receive output[0, 4) from rank 2\n"
            "  1: send output[0, 4) to rank 1\n");
}

TEST(ScheduleTest, UnequalParts) {
  ScheduleRequest request;
  request.signature = Signature(CallKind::kAllToAllV, Algorithm::kPairwise, 0);
  request.rank = 1;
  request.world_size = 3;
  request.counts = {2, 1, 0, 4, 1, 5};
  SHOAL_ASSERT_OK_AND_ASSIGN(Schedule schedule, BuildSchedule(request));
  EXPECT_EQ(schedule.ToString(),
            "rank 1 of 3, AllToAllV(f32, sends 2 + 1 + 0, receives 4 + 1 + 5, "
            "pairwise)\n"
            "  0: send input[3, 3) to rank 2\n"
            "  1: send input[0, 2) to rank 0\n"
            "  2: receive output[0, 4) from rank 0\n"
            "  3: receive output[5, 10) from rank 2\n"
            "  4: output[4, 5) = input[2, 3)\n");
  request.counts.pop_back();
  EXPECT_THAT(BuildSchedule(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("5 counts of parts in place of 6")));
  request.counts.push_back(-1);
  EXPECT_THAT(BuildSchedule(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("count -1 is negative")));
  request.counts.back() = std::numeric_limits<std::int64_t>::max() / 4;
  EXPECT_THAT(BuildSchedule(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("overflows 64 bits")));
}

// Offsets and lengths beyond 32 bits, in elements and in bytes.
TEST(ScheduleTest, CountsBeyondFourGi) {
  const std::int64_t count = (std::int64_t{1} << 34) + 3;
  for (const CallKind kind : kCollectiveKinds) {
    if (kind == CallKind::kBarrier) continue;
    for (const Algorithm algorithm : AlgorithmsOf(kind)) {
      std::int64_t sent = 0;
      std::int64_t received = 0;
      for (int rank = 0; rank < 5; ++rank) {
        SHOAL_ASSERT_OK_AND_ASSIGN(
            const Schedule schedule,
            BuildAny(kind, algorithm, count, rank, 5, true));
        for (const Step& step : schedule.steps) {
          ASSERT_GE(step.target.begin, 0);
          ASSERT_GE(step.target.count, count / 5);
          if (step.kind == StepKind::kSend) sent += step.target.count;
          if (!IsLocal(step.kind) && step.kind != StepKind::kSend) {
            received += step.target.count;
          }
        }
      }
      EXPECT_EQ(sent, received);
      EXPECT_GE(sent, count * 4);
    }
  }
}

TEST(ScheduleTest, BinomialTree) {
  const CallSignature signature =
      Signature(CallKind::kBroadcast, Algorithm::kBinomialTree, 9, /*root=*/4);
  EXPECT_EQ(Text(signature, 4, 6, /*in_place=*/true),
            "rank 4 of 6, Broadcast(f32 x 9, root 4, binomial-tree)\n"
            "  0: send output[0, 9) to rank 2\n"
            "  1: send output[0, 9) to rank 0\n"
            "  2: send output[0, 9) to rank 5\n");
  EXPECT_EQ(Text(signature, 2, 6, /*in_place=*/true),
            "rank 2 of 6, Broadcast(f32 x 9, root 4, binomial-tree)\n"
            "  0: receive output[0, 9) from rank 4\n"
            "  1: send output[0, 9) to rank 3\n");
  EXPECT_EQ(Text(signature, 2, 6, /*in_place=*/false),
            Text(signature, 2, 6, /*in_place=*/true));
}

TEST(ScheduleTest, Dissemination) {
  EXPECT_EQ(Text(Signature(CallKind::kBarrier, Algorithm::kDissemination, 0), 1,
                 5, /*in_place=*/true),
            "rank 1 of 5, Barrier(dissemination)\n"
            "  0: send output[0, 0) to rank 2\n"
            "  1: receive output[0, 0) from rank 0\n"
            "  2: send output[0, 0) to rank 3, after 1\n"
            "  3: receive output[0, 0) from rank 4, after 1\n"
            "  4: send output[0, 0) to rank 0, after 3\n"
            "  5: receive output[0, 0) from rank 2, after 3\n");
}

TEST(ScheduleTest, AWorldOfOneCopiesOrDoesNothing) {
  for (const CallKind kind : kCollectiveKinds) {
    for (const Algorithm algorithm : AlgorithmsOf(kind)) {
      for (const bool in_place : {false, true}) {
        SHOAL_ASSERT_OK_AND_ASSIGN(
            const Schedule schedule,
            BuildAny(kind, algorithm, 3, 0, 1, in_place));
        if (kind == CallKind::kAllToAllV && in_place) continue;
        const bool copies = !in_place && kind != CallKind::kBroadcast &&
                            kind != CallKind::kBarrier;
        ASSERT_EQ(schedule.steps.size(), copies ? 1u : 0u);
        EXPECT_EQ(schedule.scratch_count, 0);
        if (!copies) continue;
        EXPECT_EQ(schedule.steps[0].kind, StepKind::kCopy);
        EXPECT_EQ(schedule.steps[0].target.count, 3);
        EXPECT_FALSE(schedule.steps[0].completes);
      }
    }
  }
}

TEST(ScheduleTest, BufferSizes) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      Schedule schedule,
      BuildSchedule(Signature(CallKind::kReduceScatter, Algorithm::kRing, 5), 1,
                    4, false));
  EXPECT_EQ(schedule.input_count, 20);
  EXPECT_EQ(schedule.output_count, 5);
  SHOAL_ASSERT_OK_AND_ASSIGN(
      schedule,
      BuildSchedule(Signature(CallKind::kAllGather, Algorithm::kRing, 5), 1, 4,
                    false));
  EXPECT_EQ(schedule.input_count, 5);
  EXPECT_EQ(schedule.output_count, 20);
}

// Messages flow in the same pattern whatever the count, so that ranks notice
// that their counts differ.
TEST(ScheduleTest, TheCountDoesNotChangeWhoTalksToWhom) {
  for (const CallKind kind : kCollectiveKinds) {
    for (const Algorithm algorithm : AlgorithmsOf(kind)) {
      for (int world_size = 1; world_size <= 9; ++world_size) {
        for (int rank = 0; rank < world_size; ++rank) {
          SHOAL_ASSERT_OK_AND_ASSIGN(
              const Schedule none,
              BuildAny(kind, algorithm, 0, rank, world_size, false));
          SHOAL_ASSERT_OK_AND_ASSIGN(
              const Schedule some,
              BuildAny(kind, algorithm, 50, rank, world_size, true));
          std::vector<std::string> messages[2];
          for (const Schedule* schedule : {&none, &some}) {
            for (const Step& step : schedule->steps) {
              if (IsLocal(step.kind)) continue;
              messages[schedule == &none].push_back(
                  (step.kind == StepKind::kSend ? "to " : "from ") +
                  std::to_string(step.peer));
            }
          }
          EXPECT_EQ(messages[0], messages[1]);
        }
      }
    }
  }
}

TEST(ScheduleTest, EveryAlgorithmOfThePolicyAndNoOtherIsBuilt) {
  for (int kind_value = 0; kind_value < 16; ++kind_value) {
    const CallKind kind = static_cast<CallKind>(kind_value);
    for (int value = 0; value < 14; ++value) {
      const Algorithm algorithm = static_cast<Algorithm>(value);
      const auto choice = AlgorithmsOf(kind);
      const bool expected =
          std::find(choice.begin(), choice.end(), algorithm) != choice.end();
      const auto schedule = BuildAny(kind, algorithm, 4, 0, 2, false);
      EXPECT_EQ(schedule.ok(), expected) << kind_value << " " << value;
      if (!expected) {
        EXPECT_THAT(schedule, StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("has no schedule")));
      }
    }
  }
}

TEST(ScheduleTest, RefusesImpossibleArguments) {
  const CallSignature good =
      Signature(CallKind::kAllReduce, Algorithm::kRing, 4);
  const auto expect = [](const CallSignature& signature, int rank,
                         int world_size, const std::string& words) {
    EXPECT_THAT(
        BuildSchedule(signature, rank, world_size, false),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr(signature.ToString()), HasSubstr(words))));
  };
  expect(good, 4, 4, "rank 4; the world's ranks are 0 to 3");
  expect(good, -1, 4, "rank -1;");
  expect(good, 0, 0, "a world of 0 ranks");
  expect(good, 0, -3, "a world of -3 ranks");
  CallSignature bad = good;
  bad.count = -1;
  expect(bad, 0, 4, "negative count -1");
  bad = Signature(CallKind::kBroadcast, Algorithm::kBinomialTree, 4, 4);
  expect(bad, 0, 4, "root 4;");
  bad.root = -1;
  expect(bad, 0, 4, "root -1;");
  bad = good;
  bad.dtype = static_cast<DType>(99);
  expect(bad, 0, 4, "unknown element type");
  bad = good;
  bad.op = static_cast<ReduceOp>(99);
  expect(bad, 0, 4, "unknown element type or reduction");
}

TEST(ScheduleTest, RefusesCountsWhoseBytesOverflow) {
  const std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 4 / 8;
  CallSignature signature =
      Signature(CallKind::kReduceScatter, Algorithm::kRing, limit);
  SHOAL_EXPECT_OK(BuildSchedule(signature, 3, 8, true).status());
  signature.count = limit + 1;
  EXPECT_THAT(BuildSchedule(signature, 3, 8, true),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("overflows 64 bits")));
  signature.dtype = DType::kI8;
  SHOAL_EXPECT_OK(BuildSchedule(signature, 3, 8, true).status());
}

TEST(ScheduleTest, WorldsFarLargerThanAMachine) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const Schedule ring,
      BuildSchedule(Signature(CallKind::kAllReduce, Algorithm::kRing, 100000),
                    777, 1000, true));
  EXPECT_EQ(ring.steps.size(), 4u * 999u);
  // An odd rank below 2 * (1000 - 512) hands its operand over.
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const Schedule doubling,
      BuildSchedule(
          Signature(CallKind::kAllReduce, Algorithm::kRecursiveDoubling, 10),
          975, 1000, true));
  EXPECT_EQ(doubling.steps.size(), 2u);
}

// FinishSchedule.

Step MakeStep(StepKind kind, BufferRange target, BufferRange source = {}) {
  Step step;
  step.kind = kind;
  step.peer = kind == StepKind::kCopy ? -1 : 1;
  step.target = target;
  step.source = source;
  return step;
}

BufferRange Out(std::int64_t begin, std::int64_t end) {
  return {BufferId::kOutput, begin, end - begin};
}
BufferRange In(std::int64_t begin, std::int64_t end) {
  return {BufferId::kInput, begin, end - begin};
}

TEST(FinishScheduleTest, ReadersWaitForTheLastWriterAndWritersForReaders) {
  Schedule schedule;
  schedule.steps = {
      MakeStep(StepKind::kReceive, Out(0, 10)),                  // 0
      MakeStep(StepKind::kSend, Out(0, 4)),                      // 1
      MakeStep(StepKind::kSend, Out(3, 6)),                      // 2
      MakeStep(StepKind::kReceive, Out(2, 8)),                   // 3
      MakeStep(StepKind::kSend, Out(0, 10)),                     // 4
      MakeStep(StepKind::kSend, In(0, 10)),                      // 5
      MakeStep(StepKind::kCopy, Out(8, 10), In(0, 2)),           // 6
      MakeStep(StepKind::kReceive, Out(10, 12)),                 // 7
      MakeStep(StepKind::kSend, Out(5, 5)),                      // 8, empty
      MakeStep(StepKind::kReceiveReduce, Out(0, 4), Out(0, 4)),  // 9
  };
  schedule.steps[9].depends_on = {0, 1, 2};  // is replaced
  FinishSchedule(&schedule);
  EXPECT_THAT(schedule.steps[0].depends_on, IsEmpty());
  EXPECT_THAT(schedule.steps[1].depends_on, ElementsAre(0));
  EXPECT_THAT(schedule.steps[2].depends_on, ElementsAre(0));
  EXPECT_THAT(schedule.steps[3].depends_on, ElementsAre(0, 1, 2));
  EXPECT_THAT(schedule.steps[4].depends_on, ElementsAre(0, 3));
  EXPECT_THAT(schedule.steps[5].depends_on, IsEmpty());
  EXPECT_THAT(schedule.steps[6].depends_on, ElementsAre(4));
  EXPECT_THAT(schedule.steps[7].depends_on, IsEmpty());
  EXPECT_THAT(schedule.steps[8].depends_on, IsEmpty());
  EXPECT_THAT(schedule.steps[9].depends_on, ElementsAre(1, 4));
}

TEST(FinishScheduleTest, ScratchIsABufferOfItsOwn) {
  Schedule schedule;
  schedule.steps = {
      MakeStep(StepKind::kReceive, {BufferId::kScratch, 0, 4}),
      MakeStep(StepKind::kReceive, Out(0, 4)),
      MakeStep(StepKind::kReceiveReduce, Out(0, 4), {BufferId::kScratch, 0, 4}),
      MakeStep(StepKind::kReceive, {BufferId::kScratch, 2, 1}),
  };
  FinishSchedule(&schedule);
  EXPECT_THAT(schedule.steps[1].depends_on, IsEmpty());
  EXPECT_THAT(schedule.steps[2].depends_on, ElementsAre(0, 1));
  EXPECT_THAT(schedule.steps[3].depends_on, ElementsAre(2));
}

}  // namespace
}  // namespace shoal::internal
