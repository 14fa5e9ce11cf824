// SPDX-License-Identifier: Apache-2.0
//
// `Split` where the ranks are threads of this process, or only one.

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
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
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/grid_communicators.h"
#include "shoal/comm/identity_communicator.h"
#include "shoal/comm/in_process_communicator.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/partition/rank_grid.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using World = std::vector<std::unique_ptr<Communicator>>;

World MakeWorld(int world_size) {
  return InProcessCommunicator::CreateWorld(world_size).value();
}

void OnEveryRank(const World& world,
                 const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& communicator : world) {
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The world's ranks of a group, as its members see them.
std::vector<std::int64_t> Members(Communicator& group, int world_rank) {
  const std::int64_t mine = world_rank;
  std::vector<std::int64_t> all(group.world_size(), -1);
  SHOAL_EXPECT_OK(group.AllGather(BufferOf(absl::MakeConstSpan(&mine, 1)),
                                  BufferOf(absl::MakeSpan(all))));
  return all;
}

TEST(CommunicatorSplitTest, GroupsHaveTheRanksOfAColorInTheOrderOfTheKeys) {
  for (int world_size = 1; world_size <= 8; ++world_size) {
    const World world = MakeWorld(world_size);
    OnEveryRank(world, [world_size](Communicator& comm) {
      // Odd and even, backwards; rank 4 in none.
      const bool out = comm.rank() == 4;
      SHOAL_ASSERT_OK_AND_ASSIGN(
          const std::unique_ptr<Communicator> group,
          comm.Split(out ? -1 : comm.rank() % 2, -comm.rank()));
      if (out) {
        EXPECT_EQ(group, nullptr);
        return;
      }
      std::vector<std::int64_t> expected;
      for (int rank = world_size - 1; rank >= 0; --rank) {
        if (rank % 2 == comm.rank() % 2 && rank != 4) expected.push_back(rank);
      }
      ASSERT_EQ(group->world_size(), static_cast<int>(expected.size()));
      EXPECT_EQ(expected[group->rank()], comm.rank());
      EXPECT_EQ(Members(*group, comm.rank()), expected);
    });
  }
}

TEST(CommunicatorSplitTest, EqualKeysKeepTheOrderAndGroupsSplitAgain) {
  const World world = MakeWorld(6);
  OnEveryRank(world, [](Communicator& comm) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const auto half, comm.Split(comm.rank() / 3, 0));
    EXPECT_EQ(half->rank(), comm.rank() % 3);
    SHOAL_ASSERT_OK_AND_ASSIGN(const auto alone, half->Split(half->rank(), 0));
    EXPECT_EQ(alone->world_size(), 1);
    SHOAL_ASSERT_OK_AND_ASSIGN(const auto again, half->Split(0, 0));
    EXPECT_EQ(Members(*again, comm.rank()), Members(*half, comm.rank()));
    EXPECT_EQ(Members(*alone, comm.rank()),
              std::vector<std::int64_t>{comm.rank()});
  });
}

// The parent goes first; the two children are used from two threads, and each
// has messages of its own.
TEST(CommunicatorSplitTest, GroupsLiveByThemselves) {
  World world = MakeWorld(4);
  OnEveryRank(world, [&world](Communicator& comm) {
    const int rank = comm.rank();
    SHOAL_ASSERT_OK_AND_ASSIGN(auto row, comm.Split(rank / 2, 0));
    SHOAL_ASSERT_OK_AND_ASSIGN(auto column, comm.Split(rank % 2, 0));
    world[rank] = nullptr;
    const auto use = [](Communicator& group, std::int64_t salt) {
      const int other = 1 - group.rank();
      for (int round = 0; round < 50; ++round) {
        std::vector<std::int64_t> out(100, salt + group.rank());
        std::vector<std::int64_t> in(100);
        SHOAL_ASSERT_OK(group.SendRecv(BufferOf(absl::MakeConstSpan(out)),
                                       other, BufferOf(absl::MakeSpan(in)),
                                       other));
        ASSERT_EQ(in[99], salt + other);
        SHOAL_ASSERT_OK(
            group.AllReduce(BufferOf(absl::MakeSpan(in)), ReduceOp::kSum));
        ASSERT_EQ(in[0], 2 * salt + 1);
      }
    };
    std::thread second([&] { use(*column, 1000); });
    use(*row, 10);
    second.join();
  });
}

TEST(CommunicatorSplitTest, AnErrorOfAGroupIsTheJobs) {
  const World world = MakeWorld(4);
  OnEveryRank(world, [](Communicator& comm) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const auto group,
                               comm.Split(comm.rank() / 2, 0));
    SHOAL_ASSERT_OK(comm.Barrier());
    std::vector<float> values(comm.rank() == 0 ? 3 : 4);
    if (comm.rank() < 2) {
      EXPECT_THAT(
          group->AllReduce(BufferOf(absl::MakeSpan(values)), ReduceOp::kSum),
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   AllOf(HasSubstr("f32 x 3"), HasSubstr("f32 x 4"),
                         HasSubstr("in communicator 0/1 (ranks 0, 1 of the "
                                   "world)"))));
    } else {
      EXPECT_THAT(
          group->Recv(BufferOf(absl::MakeSpan(values)), 1 - group->rank()),
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   HasSubstr("f32 x 4")));
    }
  });
}

TEST(CommunicatorSplitTest, ATimeoutNamesTheRankOfTheWorld) {
  const World world = MakeWorld(4);
  OnEveryRank(world, [](Communicator& comm) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const auto group,
                               comm.Split(comm.rank() % 2, 0));
    CallOptions soon;
    soon.timeout = absl::Milliseconds(20);
    if (comm.rank() == 1) {
      EXPECT_THAT(group->Barrier(soon),
                  StatusIs(absl::StatusCode::kDeadlineExceeded,
                           AllOf(HasSubstr("rank 3, alive"),
                                 HasSubstr("Barrier(dissemination) #2 in "
                                           "communicator 0/1"))));
    } else {
      CallOptions patient;
      patient.timeout = absl::InfiniteDuration();
      EXPECT_THAT(comm.Barrier(patient),
                  StatusIs(absl::StatusCode::kDeadlineExceeded));
    }
  });
}

TEST(CommunicatorSplitTest, WrongOptionsAreRefused) {
  const World world = MakeWorld(1);
  CallOptions options;
  options.timeout = absl::ZeroDuration();
  EXPECT_THAT(world[0]->Split(0, 0, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  options.timeout = absl::Seconds(1);
  options.algorithm = Algorithm::kRing;
  EXPECT_THAT(world[0]->Split(0, 0, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ring")));
}

TEST(CommunicatorSplitTest, TheOnlyRankSplitsToo) {
  IdentityCommunicator world;
  SHOAL_ASSERT_OK_AND_ASSIGN(const auto group, world.Split(3, 1));
  SHOAL_ASSERT_OK_AND_ASSIGN(const auto none, world.Split(-1, 1));
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(group->world_size(), 1);
  SHOAL_EXPECT_OK(group->Barrier());
  group->Abort(absl::AbortedError("enough"));
  EXPECT_THAT(world.Barrier(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(world.Split(3, 1), StatusIs(absl::StatusCode::kAborted));
}

TEST(GridCommunicatorsTest, AreTheGroupsOfTheGrid) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid grid, RankGrid::Create(2, 1, 3));
  const World world = MakeWorld(6);
  OnEveryRank(world, [&grid](Communicator& comm) {
    SHOAL_ASSERT_OK_AND_ASSIGN(const GridCommunicators groups,
                               SplitByGrid(&comm, grid));
    const GridCoordinates at = grid.Coordinates(comm.rank()).value();
    const auto expect = [&](Communicator& group, GridAxis axis,
                            int coordinate) {
      EXPECT_EQ(group.rank(), coordinate);
      const std::vector<int> members = grid.Group(axis, comm.rank()).value();
      EXPECT_EQ(Members(group, comm.rank()),
                std::vector<std::int64_t>(members.begin(), members.end()));
    };
    expect(*groups.tensor, GridAxis::kTensor, at.tensor);
    expect(*groups.data, GridAxis::kData, at.data);
    expect(*groups.pipeline, GridAxis::kPipeline, at.pipeline);
  });
  SHOAL_ASSERT_OK_AND_ASSIGN(const RankGrid other, RankGrid::Create(2, 1, 2));
  EXPECT_THAT(SplitByGrid(world[0].get(), other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("4"), HasSubstr("6"))));
}

}  // namespace
}  // namespace shoal
