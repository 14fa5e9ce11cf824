// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/point_to_point.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shoal/comm/call.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/incoming_channel.h"
#include "shoal/comm/link.h"
#include "shoal/comm/outgoing_channel.h"
#include "shoal/comm/point_to_point_operation.h"
#include "shoal/comm/point_to_point_options.h"

namespace shoal::internal {

using State = PointToPointOperation::State;

namespace {

struct Peer {
  Peer(int rank, int peer, const PointToPointOptions& options,
       EngineFault* fault)
      : outgoing(rank, peer, options, fault),
        incoming(rank, peer, options, fault) {}

  OutgoingChannel outgoing;
  IncomingChannel incoming;
};

// How many operations an error message describes.
constexpr int kDescribed = 4;

std::string DescribeWait(const PointToPointOperation& operation,
                         bool has_link) {
  const std::string text = operation.call.ToString();
  if (operation.is_send()) {
    switch (operation.state) {
      case State::kAnnounced:
        return absl::StrCat(text, " waits for its Recv, as large messages do");
      case State::kReady:
        return absl::StrCat(text, " is on its way");
      default:
        return absl::StrCat(text, has_link ? " waits for room on the connection"
                                           : " has no connection yet");
    }
  }
  switch (operation.state) {
    case State::kAnnounced:
    case State::kReady:
      return absl::StrCat(text, " has asked for its message");
    default:
      return absl::StrCat(
          text, has_link ? " waits for its Send" : " has no connection yet");
  }
}

}  // namespace

struct PointToPoint::Impl {
  Impl(int rank, int world_size, const PointToPointOptions& options) {
    for (int peer = 0; peer < world_size; ++peer) {
      peers.emplace_back(rank, peer, options, &fault);
    }
  }

  bool stopped() const { return !failure.ok() || !fault.ok(); }
  bool Progress();

  // Calls `visit` with each operation that is not done.
  template <typename Visit>
  void ForEachUnfinished(Visit visit) const {
    for (const auto& operation : table.slots()) {
      if (operation->state == State::kFree) continue;
      if (operation->state == State::kDone) continue;
      visit(*operation);
    }
  }

  EngineFault fault;
  absl::Status failure;
  std::deque<Peer> peers;  // the one of this rank is never used
  PointToPointTable table;
};

PointToPoint::PointToPoint(int rank, int world_size,
                           const PointToPointOptions& options)
    : impl_(std::make_unique<Impl>(rank, world_size, options)) {}

PointToPoint::~PointToPoint() = default;

void PointToPoint::SetOutgoing(int peer, Link* link) {
  impl_->peers[peer].outgoing.SetLink(link);
}

void PointToPoint::SetIncoming(int peer, Link* link) {
  impl_->peers[peer].incoming.SetLink(link);
}

int PointToPoint::PeerWithoutOutgoing(int first) const {
  if (impl_->stopped()) return -1;
  const int size = static_cast<int>(impl_->peers.size());
  for (int peer = first; peer < size; ++peer) {
    if (impl_->peers[peer].outgoing.NeedsLink()) return peer;
  }
  return -1;
}

PointToPoint::OperationId PointToPoint::StartSend(const Call& call) {
  PointToPointOperation* const send = impl_->table.Add(call);
  send->call.signature.kind = CallKind::kSend;
  if (!impl_->stopped()) impl_->peers[call.peer].outgoing.Start(send);
  return send->id;
}

PointToPoint::OperationId PointToPoint::StartRecv(const Call& call) {
  PointToPointOperation* const receive = impl_->table.Add(call);
  receive->call.signature.kind = CallKind::kRecv;
  if (!impl_->stopped()) impl_->peers[call.peer].incoming.Start(receive);
  return receive->id;
}

bool PointToPoint::Progress() { return impl_->Progress(); }

bool PointToPoint::Impl::Progress() {
  if (stopped()) return false;
  bool moved = false;
  // What operations wait for, and requests before what they set free.
  for (Peer& peer : peers) {
    if (peer.incoming.CanRead() && peer.incoming.AwaitsMessage()) {
      moved |= peer.incoming.Read();
    }
    if (peer.incoming.WantsWrite()) moved |= peer.incoming.Write();
    if (peer.outgoing.WantsRead()) moved |= peer.outgoing.Read();
    if (peer.outgoing.WantsWrite()) moved |= peer.outgoing.Write();
  }
  if (moved) return true;
  // Then what nobody has asked for, so that its sender can go on.
  for (Peer& peer : peers) {
    if (peer.incoming.CanRead() && !peer.incoming.AwaitsMessage()) {
      moved |= peer.incoming.Read();
    }
  }
  return moved;
}

bool PointToPoint::ProgressOn(int peer, Port port) {
  if (impl_->stopped()) return false;
  Peer& p = impl_->peers[peer];
  switch (port) {
    case Port::kOutgoingWrite:
      return p.outgoing.WantsWrite() && p.outgoing.Write();
    case Port::kOutgoingRead:
      return p.outgoing.WantsRead() && p.outgoing.Read();
    case Port::kIncomingRead:
      return p.incoming.CanRead() && p.incoming.Read();
    case Port::kIncomingWrite:
      return p.incoming.WantsWrite() && p.incoming.Write();
  }
  return false;
}

bool PointToPoint::IsDone(OperationId id) const {
  const PointToPointOperation* const operation = impl_->table.Find(id);
  if (operation == nullptr) return true;
  return operation->state == State::kDone || impl_->stopped();
}

absl::Status PointToPoint::result(OperationId id) const {
  const PointToPointOperation* const operation = impl_->table.Find(id);
  if (operation == nullptr) {
    return absl::InternalError(
        absl::StrCat("no point-to-point operation has the id ", id));
  }
  if (operation->state == State::kDone) return absl::OkStatus();
  if (!impl_->failure.ok()) return impl_->failure;
  return impl_->fault.status;
}

void PointToPoint::Forget(OperationId id) { impl_->table.Remove(id); }

const EngineFault& PointToPoint::fault() const { return impl_->fault; }

void PointToPoint::Fail(const absl::Status& status) {
  if (impl_->failure.ok()) impl_->failure = status;
}

void PointToPoint::AppendInterest(std::vector<LinkInterest>* interest) const {
  if (impl_->stopped()) return;
  for (std::size_t i = 0; i < impl_->peers.size(); ++i) {
    const Peer& peer = impl_->peers[i];
    LinkInterest outgoing = {peer.outgoing.link(), static_cast<int>(i),
                             peer.outgoing.AwaitsRequest(),
                             peer.outgoing.WantsWrite()};
    if (outgoing.read || outgoing.write) interest->push_back(outgoing);
    LinkInterest incoming = {peer.incoming.link(), static_cast<int>(i),
                             peer.incoming.CanRead(),
                             peer.incoming.WantsWrite()};
    if (incoming.read || incoming.write) interest->push_back(incoming);
  }
}

std::vector<int> PointToPoint::AwaitedPeers() const {
  std::set<int> awaited;
  impl_->ForEachUnfinished([&](const PointToPointOperation& operation) {
    awaited.insert(operation.call.peer);
  });
  return {awaited.begin(), awaited.end()};
}

std::string PointToPoint::DescribeUnfinished() const {
  std::string text;
  int count = 0;
  impl_->ForEachUnfinished([&](const PointToPointOperation& operation) {
    if (++count > kDescribed) return;
    const Peer& peer = impl_->peers[operation.call.peer];
    const bool has_link = operation.is_send() ? peer.outgoing.link() != nullptr
                                              : peer.incoming.link() != nullptr;
    absl::StrAppend(&text, text.empty() ? "" : "; ",
                    DescribeWait(operation, has_link));
  });
  if (count > kDescribed) {
    absl::StrAppend(&text, "; and ", count - kDescribed, " more");
  }
  return text;
}

std::size_t PointToPoint::unexpected_bytes(int peer) const {
  return impl_->peers[peer].incoming.unexpected_bytes();
}

void PointToPoint::AppendState(std::string* state) const {
  absl::StrAppend(state, impl_->failure.ok() ? "" : "failed",
                  static_cast<int>(impl_->fault.kind));
  for (const Peer& peer : impl_->peers) {
    absl::StrAppend(state, "\no");
    peer.outgoing.AppendState(state);
    absl::StrAppend(state, "\ni");
    peer.incoming.AppendState(state);
  }
}

}  // namespace shoal::internal
