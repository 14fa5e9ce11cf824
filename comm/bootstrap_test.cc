// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/bootstrap.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/bootstrap_test_world.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Every pair of ranks has its links, and their two ends belong together.
void ExpectWholeWorld(World* world) {
  const int world_size = static_cast<int>(world->ranks.size());
  for (const auto& rank : world->ranks) SHOAL_ASSERT_OK(rank->Result());
  const JoinedWorld& zero = *world->ranks[0]->Result();
  for (int me = 0; me < world_size; ++me) {
    const JoinedWorld& mine = *world->ranks[me]->Result();
    EXPECT_EQ(mine.session, zero.session);
    EXPECT_EQ(mine.options.slice_bytes, zero.options.slice_bytes);
    ASSERT_EQ(static_cast<int>(mine.peers.size()), world_size);
    EXPECT_TRUE(mine.listener.valid());
    EXPECT_FALSE(mine.control[me].valid());
    EXPECT_FALSE(mine.collective[me].valid());
    for (int peer = 0; peer < me; ++peer) {
      const JoinedWorld& other = *world->ranks[peer]->Result();
      EXPECT_EQ(mine.peers[peer].pid, other.peers[peer].pid);
      for (const auto links :
           {&JoinedWorld::control, &JoinedWorld::collective}) {
        const std::string tag(1, static_cast<char>(me * 16 + peer));
        SendBytes((mine.*links)[peer].get(), tag);
        EXPECT_EQ(ReadBytes((other.*links)[me].get(), 1), tag);
      }
    }
  }
}

TEST(BootstrapTest, JoinsInEveryOrder) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    std::vector<int> order(world_size);
    std::iota(order.begin(), order.end(), 0);
    do {
      SCOPED_TRACE(absl::StrJoin(order, ","));
      World world(world_size);
      for (const int rank : order) {
        world.ranks[rank]->Start();
        // The next one starts when this one is where it has to wait.
        if (rank == 0) world.ranks[rank]->states.Await("gathering");
        if (rank != 0) world.ranks[rank]->states.Await("greeting");
      }
      ExpectWholeWorld(&world);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(BootstrapTest, JoinsInLargerWorlds) {
  for (int world_size = 5; world_size <= 8; ++world_size) {
    for (int first = 0; first < world_size; first += 3) {
      for (const bool backward : {false, true}) {
        SCOPED_TRACE(absl::StrCat(world_size, " from ", first, " ", backward));
        World world(world_size);
        for (int i = 0; i < world_size; ++i) {
          const int step = backward ? world_size - i : i;
          world.ranks[(first + step) % world_size]->Start();
        }
        ExpectWholeWorld(&world);
      }
    }
  }
}

// Nobody listens when the others start; they try again until somebody does.
TEST(BootstrapTest, RankZeroMayComeLate) {
  ReservedPort port;
  World world(3);
  std::atomic<int> refused{0};
  for (int rank : {1, 2}) {
    BootstrapOptions& options = world.ranks[rank]->options;
    options.address = port.address().ToString();
    options.on_state = [&refused](absl::string_view state) {
      if (state == "retrying") ++refused;
    };
    world.ranks[rank]->Start();
  }
  while (refused < 4) std::this_thread::yield();
  ASSERT_EQ(listen(port.descriptor(), 100), 0);
  SHOAL_ASSERT_OK_AND_ASSIGN(world.ranks[0]->options.listener,
                             TcpListener::FromDescriptor(port.Release()));
  world.ranks[0]->Start();
  ExpectWholeWorld(&world);
}

TEST(BootstrapTest, RankZeroDecidesForAll) {
  World world(3);
  world.ranks[0]->options.options.slice_bytes = 4711;
  world.ranks[1]->options.options.slice_bytes = 1;
  AlgorithmPolicy& policy = world.ranks[0]->options.options.policy;
  SHOAL_ASSERT_OK(
      OverrideAlgorithms("tree,alltoallv:pairwise,barrier:auto", &policy));
  policy.rules[1].max_world_size = 17;
  policy.rules[1].max_bytes = 0;
  AlgorithmPolicy expected = policy;
  world.ranks[0]->options.usable_cores = 2;
  SettleRules(/*crowded=*/true, &expected);
  world.StartAll();
  ExpectWholeWorld(&world);
  const AgreedOptions& agreed = world.ranks[2]->Result()->options;
  EXPECT_EQ(agreed.slice_bytes, 4711u);
  EXPECT_EQ(agreed.policy, expected);
}

TEST(BootstrapTest, JoinsOverIpv6) {
  if (absl::StatusOr<TcpListener> probe = TcpListener::Bind("[::1]:0");
      !probe.ok()) {
    GTEST_SKIP() << "no IPv6 here: " << probe.status();
  }
  World world(3, "[::1]:0");
  world.StartAll();
  ExpectWholeWorld(&world);
  EXPECT_THAT(world.ranks[2]->Result()->peers[1].addresses[0],
              testing::StartsWith("[::1]:"));
}

TEST(BootstrapTest, PublishesTheAddressThatIsAdvertised) {
  World world(3);
  world.ranks[1]->options.advertise_host = "localhost";
  // Not an address of this machine: the rank listens everywhere, and the name
  // is what the others hear. Nobody dials the highest rank.
  world.ranks[2]->options.advertise_host = "192.0.2.7";
  world.StartAll();
  ExpectWholeWorld(&world);
  EXPECT_THAT(world.ranks[0]->Result()->peers[1].addresses[0],
              testing::StartsWith("localhost:"));
  EXPECT_THAT(world.ranks[0]->Result()->peers[2].addresses[0],
              testing::StartsWith("192.0.2.7:"));
}

TEST(BootstrapTest, LeavesNoDescriptorBehind) {
  const int before = CountGuardedDescriptors();
  {
    World world(4);
    world.StartAll();
    ExpectWholeWorld(&world);
    // A listener and 2 * 3 links each.
    EXPECT_EQ(CountGuardedDescriptors(), before + 4 * 7);
  }
  EXPECT_EQ(CountGuardedDescriptors(), before);
}

TEST(BootstrapTest, OptionsThatCannotBeAreRefused) {
  const auto refuse = [](void (*change)(BootstrapOptions*), const char* why) {
    Rank rank(1, 4, "127.0.0.1:1");
    change(&rank.options);
    rank.Start();
    EXPECT_THAT(rank.Result(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refuse([](BootstrapOptions* o) { o->rank = 4; }, "rank 4 is not in a world");
  refuse([](BootstrapOptions* o) { o->rank = -1; }, "rank -1");
  refuse([](BootstrapOptions* o) { o->world_size = 1; },
         "rank 1 is not in a world of 1 rank");
  refuse([](BootstrapOptions* o) { o->world_size = 0; }, "world size 0");
  refuse([](BootstrapOptions* o) { o->address = ""; }, "address is missing");
  refuse([](BootstrapOptions* o) { o->address = "nowhere"; },
         "port is missing");
  refuse([](BootstrapOptions* o) { o->job_id = std::string(300, 'x'); },
         "job id");
  refuse([](BootstrapOptions* o) { o->job_id = "caf\xc3\xa9"; }, "job id");
  refuse([](BootstrapOptions* o) { o->timeouts.join = absl::ZeroDuration(); },
         "join time-out");
  refuse(
      [](BootstrapOptions* o) {
        o->listener = TcpListener::Bind("127.0.0.1:0").value();
      },
      "only rank 0 takes one");
}

TEST(BootstrapTest, AddressInUseIsNamed) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TcpListener taken,
                             TcpListener::Bind("127.0.0.1:0"));
  Rank rank(0, 2, taken.address());
  rank.Start();
  EXPECT_THAT(rank.Result(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr(taken.address()),
                             HasSubstr("Address already in use"))));
}

absl::Duration ShortTimeout() {
  return absl::Milliseconds(500) * TimeoutScale();
}

TEST(BootstrapTest, TimeoutNamesTheRanksThatNeverCame) {
  World world(5);
  for (const int rank : {1, 3}) {
    world.ranks[rank]->Start();
    world.ranks[rank]->states.Await("greeting");
  }
  world.ranks[0]->options.timeouts.join = ShortTimeout();
  world.ranks[0]->Start();
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(world.ranks[rank]->Result(),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("ranks 2 and 4 of 5 had not joined"),
                               HasSubstr(absl::FormatDuration(ShortTimeout())),
                               HasSubstr(world.address()))))
        << rank;
  }
}

// The impatient one tells rank 0, and rank 0 tells everybody who is missing.
TEST(BootstrapTest, TimeoutOfAMemberNamesTheRanksThatNeverCame) {
  World world(4);
  world.ranks[0]->Start();
  world.ranks[2]->Start();
  world.ranks[2]->states.Await("waiting");
  world.ranks[1]->options.timeouts.join = ShortTimeout();
  world.ranks[1]->options.timeouts.answer_window = absl::Seconds(60);
  world.ranks[1]->Start();
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(world.ranks[rank]->Result(),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("rank 3 of 4 had not joined"),
                               HasSubstr("join time-out of rank 1"))))
        << rank;
  }
}

TEST(BootstrapTest, TimeoutWithoutRankZeroNamesItsAddress) {
  const ReservedPort port;
  const std::string address = port.address().ToString();
  Rank rank(1, 2, address);
  rank.options.timeouts.join = ShortTimeout();
  rank.Start();
  EXPECT_THAT(rank.Result(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr(address), HasSubstr("refused"))));
}

TEST(BootstrapTest, TimeoutWhereNobodyAnswersSaysSo) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const TcpListener listener,
                             TcpListener::Bind("127.0.0.1:0"));
  Rank rank(1, 2, listener.address());
  rank.options.timeouts.join = ShortTimeout();
  rank.Start();
  EXPECT_THAT(rank.Result(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                      AllOf(HasSubstr(listener.address()),
                                            HasSubstr("nothing answered"))));
}

}  // namespace
}  // namespace shoal::internal
