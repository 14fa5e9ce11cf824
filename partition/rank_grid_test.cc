// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/rank_grid.h"

#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/hash/hash_testing.h"
#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr GridAxis kAxes[] = {GridAxis::kTensor, GridAxis::kData,
                              GridAxis::kPipeline};

int CoordinateAlong(GridAxis axis, const GridCoordinates& c) {
  switch (axis) {
    case GridAxis::kTensor:
      return c.tensor;
    case GridAxis::kData:
      return c.data;
    case GridAxis::kPipeline:
      return c.pipeline;
  }
  return -1;
}

// Calls `visit` with every grid of up to 5 x 4 x 5 ranks.
template <typename Visitor>
void ForEachGrid(Visitor visit) {
  for (int tensor = 1; tensor <= 5; ++tensor) {
    for (int data = 1; data <= 4; ++data) {
      for (int pipeline = 1; pipeline <= 5; ++pipeline) {
        SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid grid,
                                   RankGrid::Create(tensor, data, pipeline));
        visit(grid);
      }
    }
  }
}

TEST(RankGridTest, TensorRunsFastestThenDataThenPipeline) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid grid, RankGrid::Create(2, 3, 2));
  EXPECT_EQ(grid.world_size(), 12);
  int rank = 0;
  for (int pipeline = 0; pipeline < 2; ++pipeline) {
    for (int data = 0; data < 3; ++data) {
      for (int tensor = 0; tensor < 2; ++tensor) {
        const GridCoordinates coordinates = {tensor, data, pipeline};
        EXPECT_THAT(grid.Coordinates(rank), IsOkAndHolds(coordinates));
        EXPECT_THAT(grid.Rank(coordinates), IsOkAndHolds(rank));
        ++rank;
      }
    }
  }
}

TEST(RankGridTest, GroupsOfATwoByTwoByTwoGrid) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid grid, RankGrid::Create(2, 2, 2));
  EXPECT_THAT(grid.Groups(GridAxis::kTensor),
              IsOkAndHolds(ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3),
                                       ElementsAre(4, 5), ElementsAre(6, 7))));
  EXPECT_THAT(grid.Groups(GridAxis::kData),
              IsOkAndHolds(ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3),
                                       ElementsAre(4, 6), ElementsAre(5, 7))));
  EXPECT_THAT(grid.Groups(GridAxis::kPipeline),
              IsOkAndHolds(ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5),
                                       ElementsAre(2, 6), ElementsAre(3, 7))));
}

TEST(RankGridTest, GroupsDifferInOneCoordinateAndHoldEveryRankOnce) {
  ForEachGrid([](const RankGrid& grid) {
    for (const GridAxis axis : kAxes) {
      SHOAL_ASSERT_OK_AND_ASSIGN(const std::vector<std::vector<int>> groups,
                                 grid.Groups(axis));
      std::vector<int> seen(grid.world_size(), 0);
      int last_first = -1;
      for (const std::vector<int>& group : groups) {
        ASSERT_GT(group.front(), last_first) << grid;
        last_first = group.front();
        for (int i = 0; i < static_cast<int>(group.size()); ++i) {
          ++seen[group[i]];
          ASSERT_THAT(grid.Group(axis, group[i]), IsOkAndHolds(group)) << grid;
          SHOAL_ASSERT_OK_AND_ASSIGN(GridCoordinates own,
                                     grid.Coordinates(group[i]));
          ASSERT_EQ(CoordinateAlong(axis, own), i) << grid;
          // Apart from that coordinate, all of a group are alike.
          SHOAL_ASSERT_OK_AND_ASSIGN(GridCoordinates first,
                                     grid.Coordinates(group.front()));
          for (const GridAxis other : kAxes) {
            if (other == axis) continue;
            ASSERT_EQ(CoordinateAlong(other, own),
                      CoordinateAlong(other, first))
                << grid << ", axis " << axis;
          }
        }
      }
      ASSERT_THAT(seen, testing::Each(1)) << grid << ", axis " << axis;
    }
  });
}

TEST(RankGridTest, ActivationsFlowFromTheHighestPipelineRankToZero) {
  ForEachGrid([](const RankGrid& grid) {
    for (int rank = 0; rank < grid.world_size(); ++rank) {
      SHOAL_ASSERT_OK_AND_ASSIGN(const GridCoordinates own,
                                 grid.Coordinates(rank));
      SHOAL_ASSERT_OK_AND_ASSIGN(const std::optional<int> source,
                                 grid.ActivationSource(rank));
      SHOAL_ASSERT_OK_AND_ASSIGN(const std::optional<int> destination,
                                 grid.ActivationDestination(rank));

      ASSERT_EQ(source.has_value(), own.pipeline + 1 < grid.pipeline_size());
      ASSERT_EQ(destination.has_value(), own.pipeline > 0);
      if (source.has_value()) {
        EXPECT_THAT(grid.Coordinates(*source),
                    IsOkAndHolds(GridCoordinates{own.tensor, own.data,
                                                 own.pipeline + 1}))
            << grid;
        EXPECT_THAT(grid.ActivationDestination(*source),
                    IsOkAndHolds(std::optional<int>(rank)))
            << grid;
      }
      if (destination.has_value()) {
        EXPECT_THAT(grid.Coordinates(*destination),
                    IsOkAndHolds(GridCoordinates{own.tensor, own.data,
                                                 own.pipeline - 1}))
            << grid;
      }
    }
  });
}

TEST(RankGridTest, LargestWorldDoesNotOverflow) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid grid,
                             RankGrid::Create(1, 1, kMaxInt));
  EXPECT_EQ(grid.world_size(), kMaxInt);
  EXPECT_THAT(grid.ActivationSource(kMaxInt - 1),
              IsOkAndHolds(std::optional<int>()));
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid wide,
                             RankGrid::Create(1 << 15, 1 << 14, 3));
  EXPECT_THAT(wide.ActivationSource(wide.world_size() - 1),
              IsOkAndHolds(std::optional<int>()));
}

TEST(RankGridTest, RefusesGridsWithoutRanksAndTooManyRanks) {
  EXPECT_THAT(RankGrid::Create(0, 1, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor size must be > 0, got 0")));
  EXPECT_THAT(RankGrid::Create(1, -2, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data size must be > 0, got -2")));
  EXPECT_THAT(RankGrid::Create(1, 1, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pipeline size must be > 0, got 0")));
  EXPECT_THAT(RankGrid::Create(1 << 16, 1, 1 << 15),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("tensor 65536 x data 1 x pipeline 32768")));
  EXPECT_THAT(RankGrid::Create(kMaxInt, kMaxInt, kMaxInt),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(RankGridTest, RefusesWhatLiesOutside) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid grid, RankGrid::Create(2, 1, 3));
  for (const int rank : {-1, 6, kMaxInt}) {
    const auto refused = StatusIs(
        absl::StatusCode::kInvalidArgument,
        AllOf(HasSubstr("RankGrid::"), HasSubstr("out of range for world 6")));
    EXPECT_THAT(grid.Coordinates(rank), refused);
    EXPECT_THAT(grid.Group(GridAxis::kData, rank), refused);
    EXPECT_THAT(grid.ActivationSource(rank), refused);
    EXPECT_THAT(grid.ActivationDestination(rank), refused);
  }
  for (const GridCoordinates c :
       {GridCoordinates{2, 0, 0}, GridCoordinates{0, 1, 0},
        GridCoordinates{0, 0, 3}, GridCoordinates{-1, 0, 0},
        GridCoordinates{0, -1, 0}, GridCoordinates{0, 0, -1}}) {
    EXPECT_THAT(grid.Rank(c),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(c.ToString()),
                               HasSubstr("tensor 2 x data 1 x pipeline 3"))));
  }
  EXPECT_THAT(grid.Groups(static_cast<GridAxis>(3)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got 3")));
  EXPECT_THAT(grid.Group(static_cast<GridAxis>(3), 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got 3")));
}

TEST(RankGridTest, IsReadable) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid grid, RankGrid::Create(2, 1, 4));
  std::ostringstream stream;
  stream << grid << " " << GridCoordinates{1, 0, 2} << " " << GridAxis::kTensor
         << " " << GridAxis::kData << " " << GridAxis::kPipeline;
  EXPECT_EQ(stream.str(),
            "tensor 2 x data 1 x pipeline 4 (tensor 1, data 0, pipeline 2) "
            "tensor data pipeline");
  EXPECT_EQ(GridAxisName(static_cast<GridAxis>(3)), "unknown");
}

TEST(RankGridTest, HashAgreesWithEquality) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid a, RankGrid::Create(2, 1, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid b, RankGrid::Create(1, 2, 4));
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid c, RankGrid::Create(4, 1, 2));
  EXPECT_THAT(RankGrid::Create(2, 1, 4), IsOkAndHolds(a));
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly({a, b, c}));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {GridCoordinates{0, 0, 0}, GridCoordinates{1, 0, 0},
       GridCoordinates{0, 1, 0}, GridCoordinates{0, 0, 1}}));
}

}  // namespace
}  // namespace shoal
