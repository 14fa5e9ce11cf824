// SPDX-License-Identifier: Apache-2.0
//
// The links that one communicator's messages go over: opened when this rank
// first sends to another, adopted when another first sends to this one, and
// handed to the state machine of messages (point_to_point.h). Also finds the
// senders that will never open one: those that have left the job.
//
// Nothing waits. Threads: those of the communicator's driver, one at a time.

#ifndef SHOAL_COMM_MESSAGE_LINKS_H_
#define SHOAL_COMM_MESSAGE_LINKS_H_

#include <poll.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "shoal/comm/link.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/wait_strategy.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

class MessageLinks {
 public:
  using Clock = WaitStrategy::Clock;

  // `waker` is notified when a peer has opened a link. `late_link_grace`: how
  // long after a peer's end a link may still arrive that it had opened before.
  // `messages` outlives this.
  MessageLinks(int world_size, std::unique_ptr<PointToPointLinks> source,
               std::shared_ptr<Waker> waker, Clock::duration late_link_grace,
               PointToPoint* messages);

  // Begins to open the link on which this rank sends to `peer`, unless that
  // has been done.
  void Open(int peer);

  // Hands over links that peers have opened.
  void Adopt();

  // That, and finishes openings; true if a link came of it.
  bool Progress();

  // Whether `peer` has opened its link to send on.
  bool IsLinked(int peer) const { return linked_[peer]; }

  // For a message awaited from `peer`, which has not opened its link:
  // `collectives` is its link for collectives, whose end tells that it has
  // left. Returns when to look again.
  Clock::time_point CheckSender(int peer, const Link& collectives,
                                Clock::time_point now);
  // Whether that end is known, so that nothing needs to wait for it.
  bool HasEnded(int peer) const {
    return ended_since_[peer] != Clock::time_point{};
  }

  // The first peer that cannot be reached, or has left; -1 and OK before.
  int unreachable_peer() const { return unreachable_peer_; }
  const absl::Status& unreachable() const { return unreachable_; }

  // What to poll for openings.
  void AppendDescriptors(std::vector<struct pollfd>* descriptors) const;

  void AppendLinks(std::vector<Link*>* links) const;

  // Ends all links, and gives up what is being opened. Nothing but the
  // destructor may follow.
  void Clear();

 private:
  bool FinishOpenings();
  void SetUnreachable(int peer, const absl::Status& status);

  std::unique_ptr<PointToPointLinks> source_;
  const Clock::duration late_link_grace_;
  PointToPoint* const messages_;

  std::vector<std::unique_ptr<Link>> outgoing_;  // by peer; null: not opened
  std::vector<std::unique_ptr<Link>> incoming_;
  std::vector<std::pair<int, std::unique_ptr<LinkOpening>>> openings_;
  std::vector<bool> linked_;  // by peer
  // By peer: when it was found to have ended before it had opened a link.
  std::vector<Clock::time_point> ended_since_;
  int unreachable_peer_ = -1;
  absl::Status unreachable_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_MESSAGE_LINKS_H_
