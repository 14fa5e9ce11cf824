// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/peer_set.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> Members(const PeerSet& set) {
  std::vector<int> members;
  set.ForEach([&](int rank) { members.push_back(rank); });
  return members;
}

TEST(PeerSetTest, HoldsRanksInOrder) {
  PeerSet set(130);
  EXPECT_THAT(Members(set), IsEmpty());
  for (const int rank : {129, 0, 63, 64, 5, 0}) set.Insert(rank);
  EXPECT_THAT(Members(set), ElementsAre(0, 5, 63, 64, 129));
  EXPECT_TRUE(set.Contains(63));
  EXPECT_FALSE(set.Contains(62));
  set.Erase(63);
  set.Erase(62);
  EXPECT_FALSE(set.Contains(63));
  EXPECT_THAT(Members(set), ElementsAre(0, 5, 64, 129));
  set.Clear();
  EXPECT_THAT(Members(set), IsEmpty());
}

TEST(PeerSetTest, MayChangeWhileItIsVisited) {
  PeerSet set(8);
  for (int rank = 0; rank < 8; ++rank) set.Insert(rank);
  std::vector<int> visited;
  set.ForEach([&](int rank) {
    visited.push_back(rank);
    set.Erase(rank);
    set.Insert((rank + 4) % 8);
  });
  EXPECT_THAT(visited, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace
}  // namespace shoal::internal
