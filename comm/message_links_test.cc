// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/message_links.h"

#include <poll.h>
#include <sys/uio.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/link.h"
#include "shoal/comm/memory_link.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;
using Clock = MessageLinks::Clock;

constexpr Clock::duration kGrace = std::chrono::seconds(5);

// What the test decides about one opening.
struct OpeningState {
  int opened = 0;
  bool destroyed = false;
  std::unique_ptr<Link> link;
  absl::Status error;
};

class FakeOpening final : public LinkOpening {
 public:
  explicit FakeOpening(OpeningState* state) : state_(state) {
    ++state_->opened;
  }
  ~FakeOpening() override { state_->destroyed = true; }

  absl::StatusOr<std::unique_ptr<Link>> TryFinish() override {
    if (!state_->error.ok()) return state_->error;
    return std::move(state_->link);
  }
  int descriptor() const override { return 77; }

 private:
  OpeningState* const state_;
};

struct SourceState {
  std::deque<OpeningState> openings = std::deque<OpeningState>(4);
  std::vector<std::pair<int, std::unique_ptr<Link>>> incoming;
  std::shared_ptr<Waker> waker;
};

class FakeSource final : public PointToPointLinks {
 public:
  explicit FakeSource(SourceState* state) : state_(state) {}

  void SetWaker(std::shared_ptr<Waker> waker) override {
    state_->waker = std::move(waker);
  }
  std::unique_ptr<LinkOpening> OpenOutgoing(int peer) override {
    return std::make_unique<FakeOpening>(&state_->openings[peer]);
  }
  bool HasIncoming() const override { return !state_->incoming.empty(); }
  std::vector<std::pair<int, std::unique_ptr<Link>>> TakeIncoming() override {
    return std::exchange(state_->incoming, {});
  }

 private:
  SourceState* const state_;
};

// A link for collectives, of which only the end matters.
class CollectivesLink final : public Link {
 public:
  bool ended = false;

  LinkResult TryWrite(absl::Span<const struct iovec> /*pieces*/) override {
    return {LinkState::kWouldBlock, 0};
  }
  LinkResult TryRead(absl::Span<const struct iovec> /*pieces*/) override {
    return {LinkState::kWouldBlock, 0};
  }
  void ShutdownWrite() override {}
  bool PeerHasEnded() const override { return ended; }
  int descriptor() const override { return -1; }
  std::string end_reason() const override { return ""; }
};

// Rank 0 of 4.
class MessageLinksTest : public testing::Test {
 protected:
  void SetUp() override {
    SHOAL_ASSERT_OK_AND_ASSIGN(waker_, Waker::Create());
    links_ = std::make_unique<MessageLinks>(
        4, std::make_unique<FakeSource>(&source_), waker_, kGrace, &messages_);
  }

  // The link that an opening to `peer` gives; keeps its other end.
  void Finish(int peer) {
    auto [here, there] = MakeMemoryLinkPair();
    source_.openings[peer].link = std::move(here);
    peers_.push_back(std::move(there));
  }

  int CountDescriptors() const {
    std::vector<struct pollfd> descriptors;
    links_->AppendDescriptors(&descriptors);
    return static_cast<int>(descriptors.size());
  }
  int CountLinks() const {
    std::vector<Link*> links;
    links_->AppendLinks(&links);
    return static_cast<int>(links.size());
  }

  SourceState source_;
  std::shared_ptr<Waker> waker_;
  std::vector<std::unique_ptr<Link>> peers_;
  PointToPoint messages_{0, 4};
  std::unique_ptr<MessageLinks> links_;
};

TEST_F(MessageLinksTest, TheSourceNotifiesTheWaker) {
  EXPECT_EQ(source_.waker, waker_);
}

TEST_F(MessageLinksTest, OpensOneLinkToEachPeer) {
  links_->Open(2);
  links_->Open(3);
  links_->Open(2);
  EXPECT_EQ(source_.openings[2].opened, 1);
  EXPECT_EQ(CountDescriptors(), 2);
  EXPECT_FALSE(links_->Progress());

  Finish(2);
  EXPECT_TRUE(links_->Progress());
  EXPECT_EQ(CountDescriptors(), 1);
  EXPECT_EQ(CountLinks(), 1);
  links_->Open(2);
  EXPECT_EQ(source_.openings[2].opened, 1) << "there is one already";
  EXPECT_FALSE(links_->Progress());

  Finish(3);
  EXPECT_TRUE(links_->Progress());
  EXPECT_EQ(CountDescriptors(), 0);
  EXPECT_EQ(CountLinks(), 2);
}

TEST_F(MessageLinksTest, HandsALinkToTheMachine) {
  const char byte = 'x';
  Call send;
  send.signature.kind = CallKind::kSend;
  send.signature.dtype = DType::kU8;
  send.signature.count = 1;
  send.input = &byte;
  send.peer = 1;
  const auto id = messages_.StartSend(send);
  messages_.Progress();
  EXPECT_FALSE(messages_.IsDone(id));
  Finish(1);
  links_->Open(1);
  messages_.Progress();
  EXPECT_TRUE(messages_.IsDone(id));
}

TEST_F(MessageLinksTest, AdoptsLinksOfPeers) {
  EXPECT_FALSE(links_->IsLinked(1));
  auto [here, there] = MakeMemoryLinkPair();
  source_.incoming.emplace_back(1, std::move(here));
  links_->Adopt();
  EXPECT_TRUE(links_->IsLinked(1));
  EXPECT_FALSE(links_->IsLinked(2));
  EXPECT_EQ(CountLinks(), 1);
}

TEST_F(MessageLinksTest, KeepsTheFirstFailedOpening) {
  SHOAL_EXPECT_OK(links_->unreachable());
  source_.openings[3].error = absl::UnavailableError("refused");
  links_->Open(3);
  source_.openings[1].error = absl::UnavailableError("later");
  links_->Open(1);
  EXPECT_EQ(links_->unreachable_peer(), 3);
  EXPECT_EQ(links_->unreachable().message(), "refused");
  EXPECT_EQ(CountDescriptors(), 0) << "they are not tried again";
}

TEST_F(MessageLinksTest, ASenderThatHasLeftIsGivenAWhile) {
  CollectivesLink link;
  const Clock::time_point start(std::chrono::hours(1));
  EXPECT_EQ(links_->CheckSender(2, link, start), Clock::time_point::max());
  EXPECT_FALSE(links_->HasEnded(2));
  link.ended = true;
  EXPECT_EQ(links_->CheckSender(2, link, start), start + kGrace);
  EXPECT_TRUE(links_->HasEnded(2));
  EXPECT_FALSE(links_->HasEnded(1));
  const Clock::time_point almost = start + kGrace - std::chrono::nanoseconds(1);
  EXPECT_EQ(links_->CheckSender(2, link, almost), start + kGrace);
  EXPECT_EQ(links_->unreachable_peer(), -1);
  links_->CheckSender(2, link, start + kGrace);
  EXPECT_EQ(links_->unreachable_peer(), 2);
  EXPECT_THAT(std::string(links_->unreachable().message()),
              HasSubstr("without having sent anything"));
}

TEST_F(MessageLinksTest, ClearEndsEverything) {
  Finish(1);
  links_->Open(1);
  links_->Open(2);
  links_->Clear();
  EXPECT_EQ(CountLinks(), 0);
  EXPECT_EQ(CountDescriptors(), 0);
  EXPECT_TRUE(source_.openings[2].destroyed);
  char byte;
  const struct iovec piece = {&byte, 1};
  EXPECT_EQ(peers_[0]->TryRead(absl::MakeConstSpan(&piece, 1)).state,
            LinkState::kEnded);
}

}  // namespace
}  // namespace shoal::internal
