// SPDX-License-Identifier: Apache-2.0
//
// The table's arithmetic. That the calls do what it expects of them is shown by
// measure_test.

#include "shoal/tools/comm_bench/collectives.h"

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::comm_bench {
namespace {

using ::testing::HasSubstr;

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
}

TEST(CollectiveTest, SizesAreSharedOut) {
  EXPECT_EQ(Named("all_reduce").CountFor(10, 4), 10);
  EXPECT_EQ(Named("all_gather").CountFor(10, 4), 2);
  EXPECT_EQ(Named("all_gather").CountFor(3, 4), 0);
  EXPECT_EQ(Named("all_gather").BufferCount(Share::kWhole, 2, 4), 8);
  EXPECT_EQ(Named("all_gather").BufferCount(Share::kPart, 2, 4), 2);
  EXPECT_EQ(Named("all_to_all").BufferCount(Share::kWhole, 2, 4), 8);
  EXPECT_EQ(Named("all_reduce").BufferCount(Share::kWhole, 10, 4), 10);
  EXPECT_EQ(Named("barrier").BufferCount(Share::kNothing, 10, 4), 0);
}

// Every entry: what has to be there fits into the output, and a rank that gets
// all of the elements has no gap in them.
TEST(CollectiveTest, ExpectationsFitTheOutput) {
  constexpr std::int64_t kCount = 5;
  for (const Collective& collective : AllCollectives()) {
    for (int world = collective.min_world_size; world <= 8; ++world) {
      for (int rank = 0; rank < world; ++rank) {
        const std::int64_t output =
            collective.BufferCount(collective.output, kCount, world);
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
