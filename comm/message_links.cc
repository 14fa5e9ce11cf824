// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/message_links.h"

#include <poll.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shoal/comm/link.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

MessageLinks::MessageLinks(int world_size,
                           std::unique_ptr<PointToPointLinks> source,
                           std::shared_ptr<Waker> waker,
                           Clock::duration late_link_grace,
                           PointToPoint* messages)
    : source_(std::move(source)),
      late_link_grace_(late_link_grace),
      messages_(messages),
      outgoing_(world_size),
      linked_(world_size),
      ended_since_(world_size) {
  source_->SetWaker(std::move(waker));
}

void MessageLinks::Open(int peer) {
  if (outgoing_[peer] != nullptr) return;
  for (const auto& [opening_peer, opening] : openings_) {
    if (opening_peer == peer) return;
  }
  openings_.emplace_back(peer, source_->OpenOutgoing(peer));
  FinishOpenings();
}

bool MessageLinks::FinishOpenings() {
  bool moved = false;
  std::size_t kept = 0;
  for (auto& [peer, opening] : openings_) {
    absl::StatusOr<std::unique_ptr<Link>> link = opening->TryFinish();
    if (!link.ok()) {
      SetUnreachable(peer, link.status());
      continue;
    }
    if (*link == nullptr) {
      if (openings_[kept].second != opening) {
        openings_[kept] = {peer, std::move(opening)};
      }
      ++kept;
      continue;
    }
    moved = true;
    outgoing_[peer] = *std::move(link);
    messages_->SetOutgoing(peer, outgoing_[peer].get());
  }
  openings_.resize(kept);
  return moved;
}

void MessageLinks::SetUnreachable(int peer, const absl::Status& status) {
  if (!unreachable_.ok()) return;
  unreachable_ = status;
  unreachable_peer_ = peer;
}

void MessageLinks::Adopt() {
  if (!source_->HasIncoming()) return;
  for (auto& [peer, link] : source_->TakeIncoming()) {
    messages_->SetIncoming(peer, link.get());
    linked_[peer] = true;
    incoming_.push_back(std::move(link));
  }
}

bool MessageLinks::Progress() {
  Adopt();
  return !openings_.empty() && FinishOpenings();
}

MessageLinks::Clock::time_point MessageLinks::CheckSender(
    int peer, const Link& collectives, Clock::time_point now) {
  if (!collectives.PeerHasEnded()) return Clock::time_point::max();
  Clock::time_point& since = ended_since_[peer];
  if (since == Clock::time_point{}) {
    // A link that came before the end is found in the next turn.
    since = now;
  } else if (now >= since + late_link_grace_) {
    SetUnreachable(
        peer, absl::UnavailableError(
                  "it has ended its connections without having sent anything"));
  }
  return since + late_link_grace_;
}

void MessageLinks::AppendDescriptors(
    std::vector<struct pollfd>* descriptors) const {
  for (const auto& [peer, opening] : openings_) {
    descriptors->push_back({opening->descriptor(), POLLOUT, 0});
  }
}

void MessageLinks::AppendLinks(std::vector<Link*>* links) const {
  for (const auto* owned : {&outgoing_, &incoming_}) {
    for (const auto& link : *owned) {
      if (link != nullptr) links->push_back(link.get());
    }
  }
}

void MessageLinks::Clear() {
  outgoing_.clear();
  incoming_.clear();
  openings_.clear();
  source_ = nullptr;
}

}  // namespace shoal::internal
