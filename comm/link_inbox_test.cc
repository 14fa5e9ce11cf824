// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/link_inbox.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LinkPurpose kCollective = LinkPurpose::kCollective;
constexpr LinkPurpose kPointToPoint = LinkPurpose::kPointToPoint;

// Far longer than any wake-up takes: when it passes, one was lost.
constexpr int kLostMilliseconds = 60'000;

// Any descriptor will do in the place of a socket.
GuardedDescriptor MakeSocket() {
  return GuardedDescriptor::Open([] { return eventfd(0, EFD_CLOEXEC); });
}

absl::Status Put(LinkInbox* inbox, LinkPurpose purpose, int peer) {
  return inbox->Put(purpose, peer, &MakeSocket);
}

std::vector<int> TakePeers(LinkInbox* inbox, LinkPurpose purpose) {
  std::vector<int> peers;
  for (const auto& [peer, socket] : inbox->Take(purpose)) {
    EXPECT_TRUE(socket.valid());
    peers.push_back(peer);
  }
  return peers;
}

// Of a parked thread's; parks it again.
bool TakeWakeUp(Waker* waker) {
  pollfd entry = {waker->descriptor(), POLLIN, 0};
  const bool woken = poll(&entry, 1, 0) == 1;
  waker->Unpark();
  waker->PrepareToPark();
  return woken;
}

TEST(LinkInboxTest, KeepsThePurposesApart) {
  LinkInbox inbox({1, 2}, {1, 2}, nullptr);
  EXPECT_FALSE(inbox.Has(kCollective));
  EXPECT_THAT(inbox.Take(kCollective), IsEmpty());
  SHOAL_EXPECT_OK(Put(&inbox, kCollective, 2));
  EXPECT_TRUE(inbox.Has(kCollective));
  EXPECT_FALSE(inbox.Has(kPointToPoint));
  SHOAL_EXPECT_OK(Put(&inbox, kPointToPoint, 1));
  SHOAL_EXPECT_OK(Put(&inbox, kCollective, 1));
  EXPECT_THAT(TakePeers(&inbox, kCollective), ElementsAre(2, 1));
  EXPECT_FALSE(inbox.Has(kCollective));
  EXPECT_THAT(TakePeers(&inbox, kCollective), IsEmpty());
  EXPECT_TRUE(inbox.Has(kPointToPoint));
  EXPECT_THAT(TakePeers(&inbox, kPointToPoint), ElementsAre(1));
}

TEST(LinkInboxTest, HandsOverTheDescriptorThatWasPut) {
  LinkInbox inbox({}, {4}, nullptr);
  GuardedDescriptor socket = MakeSocket();
  const int number = socket.get();
  SHOAL_ASSERT_OK(
      inbox.Put(kPointToPoint, 4, [&] { return std::move(socket); }));
  const auto links = inbox.Take(kPointToPoint);
  ASSERT_EQ(links.size(), 1);
  EXPECT_EQ(links[0].second.get(), number);
}

TEST(LinkInboxTest, RefusesStrangersAndSecondLinks) {
  LinkInbox inbox({1}, {1, 2}, nullptr);
  const auto not_called = [] {
    ADD_FAILURE() << "took the socket of a link that is refused";
    return GuardedDescriptor();
  };
  const auto refused = [](const char* rank) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(rank));
  };
  EXPECT_THAT(inbox.Put(kCollective, 2, not_called), refused("rank 2"));
  EXPECT_THAT(inbox.Put(kPointToPoint, 3, not_called), refused("rank 3"));
  EXPECT_THAT(inbox.Put(kPointToPoint, -1, not_called), refused("rank -1"));
  SHOAL_EXPECT_OK(Put(&inbox, kCollective, 1));
  EXPECT_THAT(inbox.Put(kCollective, 1, not_called), refused("rank 1"));
  EXPECT_THAT(TakePeers(&inbox, kCollective), ElementsAre(1));
  EXPECT_THAT(inbox.Put(kCollective, 1, not_called), refused("rank 1"))
      << "a link that was taken may come again";
  EXPECT_FALSE(inbox.Has(kCollective));
  EXPECT_FALSE(inbox.Has(kPointToPoint));
}

TEST(LinkInboxTest, ClosesWhatNobodyTakes) {
  int number = -1;
  {
    LinkInbox inbox({1}, {}, nullptr);
    SHOAL_ASSERT_OK(inbox.Put(kCollective, 1, [&] {
      GuardedDescriptor socket = MakeSocket();
      number = socket.get();
      return socket;
    }));
    ASSERT_GE(fcntl(number, F_GETFD), 0);
  }
  EXPECT_LT(fcntl(number, F_GETFD), 0);
}

TEST(LinkInboxTest, WakesForEachLinkThatIsAccepted) {
  const std::shared_ptr<Waker> waker = Waker::Create().value();
  waker->PrepareToPark();
  LinkInbox inbox({1}, {1}, waker);
  SHOAL_EXPECT_OK(Put(&inbox, kCollective, 1));
  EXPECT_TRUE(TakeWakeUp(waker.get()));
  EXPECT_FALSE(Put(&inbox, kCollective, 1).ok());
  EXPECT_FALSE(TakeWakeUp(waker.get())) << "woken for a link that was refused";
  SHOAL_EXPECT_OK(Put(&inbox, kPointToPoint, 1));
  EXPECT_TRUE(TakeWakeUp(waker.get()));
}

TEST(LinkInboxTest, WakesALateWakerIfThereIsALink) {
  for (const LinkPurpose purpose : {kCollective, kPointToPoint}) {
    const std::shared_ptr<Waker> early = Waker::Create().value();
    const std::shared_ptr<Waker> late = Waker::Create().value();
    early->PrepareToPark();
    late->PrepareToPark();
    LinkInbox inbox({1}, {1}, nullptr);
    inbox.SetWaker(early);
    EXPECT_FALSE(TakeWakeUp(early.get())) << "nothing has come";
    SHOAL_EXPECT_OK(Put(&inbox, purpose, 1));
    EXPECT_TRUE(TakeWakeUp(early.get()));
    inbox.SetWaker(late);
    EXPECT_TRUE(TakeWakeUp(late.get()));
    EXPECT_FALSE(TakeWakeUp(early.get())) << "it was replaced";
  }
}

// One thread puts, as the service thread does, and another parks until it has
// everything.
TEST(LinkInboxTest, LosesNoLinkToAThreadThatParks) {
  constexpr int kPeers = 200;
  std::set<int> peers;
  for (int peer = 0; peer < kPeers; ++peer) peers.insert(peer);
  const std::shared_ptr<Waker> waker = Waker::Create().value();
  LinkInbox inbox({}, peers, waker);
  std::thread service([&] {
    for (const int peer : peers) {
      SHOAL_EXPECT_OK(Put(&inbox, kPointToPoint, peer));
    }
  });
  std::set<int> taken;
  bool lost = false;
  while (taken.size() < peers.size() && !lost) {
    waker->PrepareToPark();
    if (!inbox.Has(kPointToPoint)) {
      pollfd entry = {waker->descriptor(), POLLIN, 0};
      lost = poll(&entry, 1, kLostMilliseconds) == 0;
    }
    waker->Unpark();
    for (const int peer : TakePeers(&inbox, kPointToPoint)) {
      EXPECT_TRUE(taken.insert(peer).second);
    }
  }
  EXPECT_FALSE(lost) << "a wake-up was lost";
  service.join();
  EXPECT_EQ(taken, peers);
}

}  // namespace
}  // namespace shoal::internal
