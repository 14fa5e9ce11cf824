// SPDX-License-Identifier: Apache-2.0
//
// The table's arithmetic. That the calls do what it expects of them is shown by
// measure_test.

#include "shoal/tools/comm_bench/collectives.h"

#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tools/comm_bench/pattern.h"

namespace shoal::comm_bench {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Collective& Named(const char* name) { return **FindCollective(name); }

TEST(FindCollectiveTest, FindsEachByItsName) {
  std::set<std::string> names;
  for (const Collective& collective : AllCollectives()) {
    EXPECT_THAT(FindCollective(collective.name), IsOkAndHolds(&collective));
    EXPECT_TRUE(names.insert(std::string(collective.name)).second);
  }
  EXPECT_THAT(FindCollective("ring"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("all_reduce, reduce_scatter, ")));
}

TEST(CollectiveTest, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(Named("all_reduce").bus_factor(4), 1.5);
  EXPECT_DOUBLE_EQ(Named("reduce_scatter").bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(Named("all_gather").bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(Named("broadcast").bus_factor(4), 1);
  EXPECT_DOUBLE_EQ(Named("reduce").bus_factor(4), 1);
  EXPECT_DOUBLE_EQ(Named("gather").bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(Named("scatter").bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(Named("all_to_all").bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(Named("sendrecv").bus_factor(4), 1);
  EXPECT_DOUBLE_EQ(Named("all_reduce").bus_factor(1), 0);
  EXPECT_DOUBLE_EQ(Named("all_gather_v").bus_factor(4), 0.75);
  EXPECT_DOUBLE_EQ(Named("all_to_all_v").bus_factor(4), 0.9375);
  EXPECT_DOUBLE_EQ(Named("all_reduce_coalesced").bus_factor(4), 1.5);
  EXPECT_DOUBLE_EQ(Named("broadcast_string").bus_factor(4), 1);
}

TEST(CollectiveTest, SizesAreSharedOut) {
  EXPECT_EQ(Named("all_reduce").CountFor(10, 4), 10);
  EXPECT_EQ(Named("all_gather").CountFor(10, 4), 2);
  EXPECT_EQ(Named("all_gather").CountFor(3, 4), 0);
  EXPECT_EQ(Named("all_gather").BufferCount(Share::kWhole, 2, 0, 4), 8);
  EXPECT_EQ(Named("all_gather").BufferCount(Share::kPart, 2, 1, 4), 2);
  EXPECT_EQ(Named("all_to_all").BufferCount(Share::kWhole, 2, 0, 4), 8);
  EXPECT_EQ(Named("all_reduce").BufferCount(Share::kWhole, 10, 0, 4), 10);
  EXPECT_EQ(Named("barrier").BufferCount(Share::kNothing, 10, 0, 4), 0);
}

TEST(AllGatherVTest, PartsGrowWithTheRankAndAddUpToTheSize) {
  const Collective& collective = Named("all_gather_v");
  const std::int64_t parts[] = {25, 75, 125, 175};
  Exercise exercise;
  collective.prepare(100, {2, 4, 0}, &exercise);
  EXPECT_THAT(exercise.recv_counts, ElementsAreArray(parts));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(collective.BufferCount(Share::kPart, 100, rank, 4), parts[rank]);
    const Segment segment = collective.expected(100, {0, 4, 0})[rank];
    EXPECT_EQ(segment.position, collective.PartStart(100, rank, 4));
    EXPECT_EQ(segment.count, parts[rank]);
    EXPECT_EQ(segment.whose, rank);
    EXPECT_EQ(segment.first, 0);
  }
  EXPECT_EQ(collective.BufferCount(Share::kWhole, 100, 0, 4), 400);
  // Some of few elements are of no rank at all.
  EXPECT_EQ(collective.BufferCount(Share::kPart, 1, 0, 4), 0);
}

// What one rank sends another is what that one receives, and where it has to
// be taken from.
TEST(AllToAllVTest, SendersAndReceiversAgree) {
  const Collective& collective = Named("all_to_all_v");
  for (const std::int64_t count : {0, 1, 5, 100}) {
    for (int world = 1; world <= 8; ++world) {
      std::vector<Exercise> ranks(world);
      for (int rank = 0; rank < world; ++rank) {
        collective.prepare(count, {rank, world, 0}, &ranks[rank]);
      }
      for (int rank = 0; rank < world; ++rank) {
        const std::vector<Segment> segments =
            collective.expected(count, {rank, world, 0});
        std::int64_t received = 0;
        for (int from = 0; from < world; ++from) {
          const std::vector<std::int64_t>& sent = ranks[from].send_counts;
          EXPECT_EQ(sent[rank], ranks[rank].recv_counts[from]);
          EXPECT_EQ(segments[from].count, sent[rank]);
          EXPECT_EQ(segments[from].whose, from);
          EXPECT_EQ(segments[from].first,
                    std::accumulate(sent.begin(), sent.begin() + rank,
                                    std::int64_t{0}));
          received += sent[rank];
        }
        EXPECT_EQ(received, count * world);
      }
    }
  }
  EXPECT_NE(collective.expected(100, {0, 4, 0})[1].count,
            collective.expected(100, {0, 4, 0})[2].count);
}

TEST(AllReduceCoalescedTest, TensorsLieEndToEnd) {
  const Collective& collective = Named("all_reduce_coalesced");
  for (const std::int64_t count : {0, 1, 7, 1001}) {
    std::vector<float> elements(count + 1);
    Exercise exercise;
    exercise.output = {elements.data(), count, DType::kF32};
    collective.prepare(count, {0, 3, 0}, &exercise);
    ASSERT_EQ(exercise.tensors.size(), kTensors);
    std::int64_t covered = 0;
    for (const Buffer& tensor : exercise.tensors) {
      EXPECT_EQ(tensor.data, elements.data() + covered);
      EXPECT_EQ(tensor.dtype, DType::kF32);
      EXPECT_GE(tensor.count, 0);
      covered += tensor.count;
    }
    EXPECT_EQ(covered, count);
  }
  const Segment whole = collective.expected(1001, {2, 3, 0})[0];
  EXPECT_EQ(whole.count, 1001);
  EXPECT_EQ(whole.whose, kReduced);
}

TEST(BroadcastStringTest, IsOfTheRootsBytes) {
  const Collective& collective = Named("broadcast_string");
  EXPECT_TRUE(collective.is_string);
  const Segment segment = collective.expected(10, {0, 3, 2})[0];
  EXPECT_EQ(segment.count, 10);
  EXPECT_EQ(segment.whose, 2);
  EXPECT_EQ(segment.first, 0);
}

TEST(ReductionTakesTest, TypeOperationAndWireFormatGoTogether) {
  using W = WireFormat;
  EXPECT_TRUE(ReductionTakes(ReduceOp::kUser, DType::kF16, W::kAsData));
  EXPECT_TRUE(ReductionTakes(ReduceOp::kUser, DType::kF32, W::kQ8_0));
  EXPECT_TRUE(ReductionTakes(ReduceOp::kSum, DType::kF16, W::kF32));
  EXPECT_FALSE(ReductionTakes(ReduceOp::kUser, DType::kF16, W::kF32));
  EXPECT_FALSE(ReductionTakes(ReduceOp::kSum, DType::kF16, W::kBF16));
  EXPECT_FALSE(ReductionTakes(ReduceOp::kXor, DType::kF32, W::kAsData));
}

TEST(CollectivesTextTest, SaysInALineWhatEachDoes) {
  for (const Collective& collective : AllCollectives()) {
    EXPECT_THAT(collective.summary, Not(IsEmpty())) << collective.name;
  }
  const std::string text = CollectivesText();
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(line.size(), 80) << line;
  }
}

// Every entry: what has to be there fits into the output, and a rank that gets
// all of the elements has no gap in them.
TEST(CollectiveTest, ExpectationsFitTheOutput) {
  constexpr std::int64_t kCount = 5;
  for (const Collective& collective : AllCollectives()) {
    for (int world = collective.min_world_size; world <= 8; ++world) {
      for (int rank = 0; rank < world; ++rank) {
        const std::int64_t output =
            collective.BufferCount(collective.output, kCount, rank, world);
        std::int64_t covered = 0;
        for (const Segment& segment :
             collective.expected(kCount, {rank, world, world - 1})) {
          EXPECT_EQ(segment.position, covered) << collective.name;
          EXPECT_LT(segment.whose, world) << collective.name;
          covered += segment.count;
        }
        EXPECT_LE(covered, output) << collective.name;
        if (covered != 0) {
          EXPECT_EQ(covered, output) << collective.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal::comm_bench
