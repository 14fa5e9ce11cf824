// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/weighted_split.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/partition/layer_split.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Property;

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// Equal layers of one unit of work and `memory_bytes` each.
WeightedSplitProblem EqualLayers(int num_layers, int64_t memory_bytes,
                                 std::vector<RankCapacity> ranks) {
  WeightedSplitProblem problem;
  problem.layers.assign(num_layers, {1, memory_bytes});
  problem.ranks = std::move(ranks);
  return problem;
}

auto HasCounts(std::vector<int64_t> counts) {
  return IsOkAndHolds(Property(&LayerSplit::counts, counts));
}

// The best split by trying all of them, straight from the header's definition.
// No value if none fits.
class BruteForce {
 public:
  explicit BruteForce(const WeightedSplitProblem& problem)
      : problem_(problem), counts_(problem.ranks.size(), 0) {}

  std::optional<std::vector<int64_t>> BestCountsByRank() {
    Try(/*stage=*/0, /*begin=*/0);
    if (!best_counts_.has_value()) return std::nullopt;
    return std::vector<int64_t>(best_counts_->rbegin(), best_counts_->rend());
  }

 private:
  void Try(size_t stage, size_t begin) {
    const size_t left = problem_.layers.size() - begin;
    if (stage + 1 == counts_.size()) {
      counts_[stage] = static_cast<int64_t>(left);
      Judge();
      return;
    }
    for (size_t count = 0; count <= left; ++count) {
      counts_[stage] = static_cast<int64_t>(count);
      Try(stage + 1, begin + count);
    }
  }

  void Judge() {
    std::vector<double> times;
    size_t layer = 0;
    for (size_t stage = 0; stage < counts_.size(); ++stage) {
      const RankCapacity& rank = problem_.ranks[counts_.size() - 1 - stage];
      int64_t work = 0;
      int64_t memory = 0;
      const auto add = [&](const LayerCost& cost) {
        work += cost.work;
        memory += cost.memory_bytes;
      };
      for (int64_t i = 0; i < counts_[stage]; ++i)
        add(problem_.layers[layer++]);
      if (stage == 0) add(problem_.first_stage_extra);
      if (stage + 1 == counts_.size()) add(problem_.last_stage_extra);
      if (rank.memory_bytes.has_value() && memory > *rank.memory_bytes) return;
      times.push_back(static_cast<double>(work) / rank.speed);
    }
    std::sort(times.begin(), times.end(), std::greater<double>());
    if (!best_counts_.has_value() || times < best_times_ ||
        (times == best_times_ && counts_ > *best_counts_)) {
      best_times_ = times;
      best_counts_ = counts_;
    }
  }

  const WeightedSplitProblem& problem_;
  std::vector<int64_t> counts_;  // By stage, as are the best ones.
  std::optional<std::vector<int64_t>> best_counts_;
  std::vector<double> best_times_;
};

TEST(WeightedSplitTest, EqualMachinesGetTheEvenSplit) {
  for (int world = 1; world <= 9; ++world) {
    for (int layers = 0; layers <= 33; ++layers) {
      SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit even,
                                 LayerSplit::Even(layers, world));
      EXPECT_THAT(MinimizeSlowestStage(
                      EqualLayers(layers, 1, std::vector<RankCapacity>(world))),
                  IsOkAndHolds(even));
    }
  }
}

TEST(WeightedSplitTest, FasterRanksGetMoreLayers) {
  EXPECT_THAT(MinimizeSlowestStage(EqualLayers(
                  12, 0, {{.speed = 1}, {.speed = 2}, {.speed = 3}})),
              HasCounts({2, 4, 6}));
  EXPECT_THAT(
      MinimizeSlowestStage(EqualLayers(8, 0, {{.speed = 1}, {.speed = 100}})),
      HasCounts({0, 8}));
}

TEST(WeightedSplitTest, MemoryLimitsOverrideSpeed) {
  // Rank 1 is ten times as fast, but holds three layers only.
  EXPECT_THAT(MinimizeSlowestStage(EqualLayers(
                  8, 100, {{.speed = 1}, {.speed = 10, .memory_bytes = 399}})),
              HasCounts({5, 3}));
  // At the limit to the byte.
  EXPECT_THAT(MinimizeSlowestStage(EqualLayers(
                  8, 100, {{.speed = 1}, {.speed = 10, .memory_bytes = 400}})),
              HasCounts({4, 4}));
}

TEST(WeightedSplitTest, EmbeddingAndHeadWeighOnTheirStages) {
  WeightedSplitProblem problem =
      EqualLayers(9, 10, std::vector<RankCapacity>(3));
  problem.first_stage_extra = {.work = 3};
  problem.last_stage_extra = {.work = 3};
  // Five units each: rank 2 embeds, rank 0 has the head.
  EXPECT_THAT(MinimizeSlowestStage(problem), HasCounts({2, 5, 2}));

  problem.first_stage_extra = {.memory_bytes = 75};
  problem.last_stage_extra = {};
  problem.ranks[2].memory_bytes = 90;
  EXPECT_THAT(MinimizeSlowestStage(problem), HasCounts({4, 4, 1}));

  // A single rank has both.
  problem = EqualLayers(2, 10, {{.memory_bytes = 50}});
  problem.first_stage_extra = {.work = 1, .memory_bytes = 14};
  problem.last_stage_extra = {.work = 2, .memory_bytes = 16};
  SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit split,
                             MinimizeSlowestStage(problem));
  EXPECT_THAT(StageLoads(problem, split),
              IsOkAndHolds(ElementsAre(
                  StageLoad{.work = 5, .memory_bytes = 50, .time = 5})));
  problem.ranks[0].memory_bytes = 49;
  EXPECT_THAT(MinimizeSlowestStage(problem),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(WeightedSplitTest, IsTheBestOfAllSplits) {
  std::mt19937 random(20240817);
  const auto below = [&random](uint32_t bound) {
    return static_cast<int64_t>(random() % bound);
  };
  int fitting = 0;
  int not_fitting = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    WeightedSplitProblem problem;
    const int64_t num_layers = below(9);
    for (int64_t i = 0; i < num_layers; ++i) {
      problem.layers.push_back({below(5), below(5)});
    }
    const int64_t num_ranks = 1 + below(5);
    for (int64_t r = 0; r < num_ranks; ++r) {
      // Thirds do not come out even in binary; few values make many ties.
      RankCapacity rank = {.speed = static_cast<double>(1 + below(4)) / 3.0};
      if (below(3) != 0) rank.memory_bytes = below(16);
      problem.ranks.push_back(rank);
    }
    problem.first_stage_extra = {below(4), below(4)};
    problem.last_stage_extra = {below(4), below(4)};

    const std::optional<std::vector<int64_t>> expected =
        BruteForce(problem).BestCountsByRank();
    const auto split = MinimizeSlowestStage(problem);
    if (!expected.has_value()) {
      ++not_fitting;
      EXPECT_THAT(split, StatusIs(absl::StatusCode::kResourceExhausted))
          << "trial " << trial;
      continue;
    }
    ++fitting;
    EXPECT_THAT(split, HasCounts(*expected)) << "trial " << trial;
  }
  // Both kinds were tried in earnest.
  EXPECT_GT(fitting, 500);
  EXPECT_GT(not_fitting, 500);
}

TEST(WeightedSplitTest, SplitsLargeModelsCloseToIdeal) {
  std::mt19937 random(1);
  WeightedSplitProblem problem;
  for (int i = 0; i < 200; ++i) {
    problem.layers.push_back({static_cast<int64_t>(1000 + random() % 100), 1});
  }
  for (int r = 0; r < 64; ++r) {
    problem.ranks.push_back({.speed = 1.0 + random() % 8});
  }
  SHOAL_ASSERT_OK_AND_ASSIGN(const LayerSplit split,
                             MinimizeSlowestStage(problem));
  SHOAL_ASSERT_OK_AND_ASSIGN(const std::vector<StageLoad> loads,
                             StageLoads(problem, split));
  // No split is faster than all ranks without any waiting.
  int64_t work = 0;
  double speed = 0;
  double slowest = 0;
  for (const LayerCost& layer : problem.layers) work += layer.work;
  for (const RankCapacity& rank : problem.ranks) speed += rank.speed;
  for (const StageLoad& load : loads) slowest = std::max(slowest, load.time);
  EXPECT_GE(slowest, static_cast<double>(work) / speed);
  EXPECT_LE(slowest, 2 * static_cast<double>(work) / speed);
}

TEST(WeightedSplitTest, SaysHowManyLayersFit) {
  // Stages in forward order: rank 2 holds 3 layers, rank 1 none, rank 0 two.
  WeightedSplitProblem problem = EqualLayers(
      6, 10, {{.memory_bytes = 25}, {.memory_bytes = 9}, {.memory_bytes = 30}});
  EXPECT_THAT(MinimizeSlowestStage(problem),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("3 ranks hold only the first 5 of 6 layers")));

  problem.last_stage_extra.memory_bytes = 26;
  EXPECT_THAT(MinimizeSlowestStage(problem),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("rank 0, the last stage"),
                             HasSubstr("needs 26 bytes"),
                             HasSubstr("its limit is 25"))));

  problem.first_stage_extra.memory_bytes = 31;
  EXPECT_THAT(MinimizeSlowestStage(problem),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("rank 2, the first stage"),
                             HasSubstr("needs 31 bytes"),
                             HasSubstr("its limit is 30"))));
}

TEST(WeightedSplitTest, LoadsOfAGivenSplit) {
  WeightedSplitProblem problem =
      EqualLayers(5, 10, {{.speed = 2, .memory_bytes = 37}, {.speed = 0.5}});
  problem.first_stage_extra = {.work = 4, .memory_bytes = 5};
  problem.last_stage_extra = {.work = 1, .memory_bytes = 7};
  SHOAL_ASSERT_OK_AND_ASSIGN(LayerSplit split, LayerSplit::Parse(5, 2, "3,2"));
  EXPECT_THAT(StageLoads(problem, split),
              IsOkAndHolds(ElementsAre(
                  StageLoad{.work = 4, .memory_bytes = 37, .time = 2},
                  StageLoad{.work = 6, .memory_bytes = 25, .time = 12})));

  SHOAL_ASSERT_OK_AND_ASSIGN(split, LayerSplit::Parse(5, 2, "4,1"));
  EXPECT_THAT(
      StageLoads(problem, split),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("rank 0 needs 47 bytes"),
                     HasSubstr("layers [1, 5)"), HasSubstr("limit is 37"))));

  SHOAL_ASSERT_OK_AND_ASSIGN(split, LayerSplit::Even(6, 2));
  EXPECT_THAT(StageLoads(problem, split),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("6 layers over 2 ranks")));
  SHOAL_ASSERT_OK_AND_ASSIGN(split, LayerSplit::Even(5, 3));
  EXPECT_THAT(StageLoads(problem, split),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("5 layers over 3 ranks")));
}

TEST(WeightedSplitTest, RefusesImpossibleArguments) {
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(MinimizeSlowestStage(EqualLayers(4, 0, {})),
              refused("world_size must be > 0, got 0"));
  for (const double speed : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(MinimizeSlowestStage(EqualLayers(4, 0, {{}, {.speed = speed}})),
                refused("speed of rank 1 must be finite and > 0"));
  }
  EXPECT_THAT(MinimizeSlowestStage(EqualLayers(4, 0, {{.memory_bytes = -1}})),
              refused("memory_bytes of rank 0 must be >= 0, got -1"));
  EXPECT_THAT(MinimizeSlowestStage(EqualLayers(4, -2, {{}})),
              refused("memory_bytes of layer 0 must be >= 0, got -2"));

  WeightedSplitProblem problem = EqualLayers(4, 0, {{}});
  problem.layers[3].work = -5;
  EXPECT_THAT(MinimizeSlowestStage(problem),
              refused("work of layer 3 must be >= 0, got -5"));
  problem = EqualLayers(4, 0, {{}});
  problem.first_stage_extra.work = -1;
  EXPECT_THAT(MinimizeSlowestStage(problem),
              refused("work of first_stage_extra must be >= 0, got -1"));
  problem = EqualLayers(4, 0, {{}});
  problem.last_stage_extra.memory_bytes = -1;
  EXPECT_THAT(MinimizeSlowestStage(problem),
              refused("memory_bytes of last_stage_extra must be >= 0, got -1"));
}

TEST(WeightedSplitTest, RefusesTotalsThatOverflow) {
  const auto overflow = [](const char* what) {
    return StatusIs(absl::StatusCode::kOutOfRange, HasSubstr(what));
  };
  WeightedSplitProblem problem = EqualLayers(2, kMaxInt64 / 2, {{}, {}});
  SHOAL_EXPECT_OK(MinimizeSlowestStage(problem));
  problem.last_stage_extra.memory_bytes = 2;
  EXPECT_THAT(MinimizeSlowestStage(problem), overflow("memory of the whole"));
  problem.layers.push_back({1, kMaxInt64 / 2});
  EXPECT_THAT(MinimizeSlowestStage(problem), overflow("memory of the whole"));

  problem = EqualLayers(1, 0, {{}});
  problem.layers[0].work = kMaxInt64;
  SHOAL_EXPECT_OK(MinimizeSlowestStage(problem));
  problem.first_stage_extra.work = 1;
  EXPECT_THAT(MinimizeSlowestStage(problem), overflow("work of the whole"));
  problem.first_stage_extra.work = 0;
  problem.layers.push_back({1, 0});
  EXPECT_THAT(MinimizeSlowestStage(problem), overflow("work of the whole"));
}

}  // namespace
}  // namespace shoal
