// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/engine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shoal/comm/call.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_receiver.h"
#include "shoal/comm/message_sender.h"
#include "shoal/comm/operation.h"
#include "shoal/comm/peer_set.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

// What one write, or one read straight to its place, takes at most: enough for
// the cost of the call to vanish, little enough that the other direction is
// not kept waiting.
constexpr std::size_t kSlicesAtOnce = 8;

// One link with what is to go out and to come in on it.
struct Channel {
  Channel(Link* link, int rank, int peer, std::size_t slice_bytes)
      : link(link), sender(rank, peer), receiver(rank, peer, slice_bytes) {}

  Link* link;
  MessageSender sender;
  MessageReceiver receiver;
  // Of the operation that is being started.
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
};

}  // namespace

// Copied by `Clone`: values throughout, but for the links.
struct Engine::Impl {
  Impl(int rank, int world_size, const std::vector<Link*>& links,
       const EngineOptions& options)
      : rank(rank),
        world_size(world_size),
        slice_bytes(std::max<std::size_t>(options.slice_bytes, 1)),
        to_send(world_size),
        to_receive(world_size) {
    channels.reserve(world_size);
    for (int peer = 0; peer < world_size; ++peer) {
      channels.emplace_back(links[peer], rank, peer, slice_bytes);
    }
  }

  bool failed() const { return !operations.failure().ok(); }

  absl::Status Check(const Schedule& schedule) const;
  void Enqueue(std::uint32_t slot);

  bool Write(int peer);
  bool Read(int peer);
  bool WriteAll();
  bool ReadAll();
  bool RunLocalSteps();

  // True once a fault has been found; then everything is over.
  bool TakeFault(EngineFault found);
  void FailAll(const absl::Status& status);

  // Whether this rank is stuck in sending to a peer from which it expects
  // nothing: then the peer's next header is read ahead.
  bool LooksAhead(const Channel& channel) const {
    return channel.receiver.empty() && channel.sender.Wants(operations);
  }

  int rank;
  int world_size;
  std::size_t slice_bytes;
  OperationTable operations;
  std::vector<Channel> channels;
  // The peers whose sender, or receiver, has steps in its queue.
  PeerSet to_send;
  PeerSet to_receive;
  // Local steps that are not complete, in order.
  std::vector<QueuedStep> local_steps;
  EngineFault fault;
};

absl::Status Engine::Impl::Check(const Schedule& schedule) const {
  if (schedule.rank != rank || schedule.world_size != world_size) {
    return absl::InternalError(absl::StrCat(
        "a schedule of rank ", schedule.rank, " of ", schedule.world_size,
        " was given to the engine of rank ", rank, " of ", world_size));
  }
  for (const Step& step : schedule.steps) {
    if (IsLocal(step.kind)) continue;
    if (step.peer < 0 || step.peer >= world_size ||
        channels[step.peer].link == nullptr) {
      return absl::InternalError(
          absl::StrCat("rank ", rank, " has no link to rank ", step.peer,
                       ", which ", schedule.CallText(), " needs"));
    }
  }
  return absl::OkStatus();
}

void Engine::Impl::Enqueue(std::uint32_t slot) {
  const Schedule& schedule = operations.at(slot).schedule();
  for (const Step& step : schedule.steps) {
    if (IsLocal(step.kind)) continue;
    channels[step.peer].sends = 0;
    channels[step.peer].receives = 0;
  }
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    QueuedStep queued = {slot, static_cast<std::int32_t>(i), 0};
    if (IsLocal(step.kind)) {
      local_steps.push_back(queued);
      continue;
    }
    Channel& channel = channels[step.peer];
    if (step.kind == StepKind::kSend) {
      queued.ordinal = channel.sends++;
      channel.sender.Push(queued);
      to_send.Insert(step.peer);
    } else {
      queued.ordinal = channel.receives++;
      channel.receiver.Push(queued);
      to_receive.Insert(step.peer);
    }
  }
}

bool Engine::Impl::TakeFault(EngineFault found) {
  if (found.kind == EngineFault::Kind::kNone) return false;
  fault = std::move(found);
  FailAll(fault.status);
  return true;
}

void Engine::Impl::FailAll(const absl::Status& status) {
  operations.FailAll(status);
  for (Channel& channel : channels) {
    channel.sender.Clear();
    channel.receiver.Clear();
  }
  to_send.Clear();
  to_receive.Clear();
  local_steps.clear();
}

bool Engine::Impl::Write(int peer) {
  Channel& channel = channels[peer];
  EngineFault found;
  const bool moved = channel.sender.Write(
      channel.link, kSlicesAtOnce * slice_bytes, &operations, &found);
  if (channel.sender.empty()) to_send.Erase(peer);
  return TakeFault(std::move(found)) || moved;
}

bool Engine::Impl::Read(int peer) {
  Channel& channel = channels[peer];
  EngineFault found;
  bool moved = false;
  if (!channel.receiver.empty()) {
    moved = channel.receiver.Read(channel.link, kSlicesAtOnce * slice_bytes,
                                  &operations, &found);
    if (channel.receiver.empty()) to_receive.Erase(peer);
  } else if (LooksAhead(channel)) {
    const Operation& sending = operations.at(channel.sender.front().slot);
    moved = channel.receiver.ReadHeaderAhead(channel.link, operations, sending,
                                             &found);
  }
  return TakeFault(std::move(found)) || moved;
}

bool Engine::Impl::WriteAll() {
  bool moved = false;
  to_send.ForEach([&](int peer) { moved |= !failed() && Write(peer); });
  return moved;
}

bool Engine::Impl::ReadAll() {
  bool moved = false;
  to_receive.ForEach([&](int peer) { moved |= !failed() && Read(peer); });
  to_send.ForEach([&](int peer) {
    if (!to_receive.Contains(peer)) moved |= !failed() && Read(peer);
  });
  return moved;
}

bool Engine::Impl::RunLocalSteps() {
  bool moved = false;
  std::size_t kept = 0;
  for (const QueuedStep queued : local_steps) {
    Operation& operation = operations.at(queued.slot);
    const std::int64_t allowed = operation.Allowed(queued.step);
    const std::int64_t count = allowed - operation.processed(queued.step);
    if (count > 0) {
      operation.RunLocal(queued.step, count);
      moved = true;
    }
    if (allowed == operation.step(queued.step).target.count) {
      operations.CompleteStep(queued.slot, queued.step);
      moved = true;
    } else {
      local_steps[kept++] = queued;
    }
  }
  local_steps.resize(kept);
  return moved;
}

Engine::Engine(int rank, int world_size, std::vector<Link*> links,
               const EngineOptions& options)
    : impl_(std::make_unique<Impl>(rank, world_size, links, options)) {}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() = default;

Engine::OperationId Engine::Start(std::shared_ptr<const Schedule> schedule,
                                  const Call& call) {
  const auto refuse = [this](absl::Status status) {
    impl_->TakeFault(
        {EngineFault::Kind::kUnable, impl_->rank, std::move(status)});
  };
  if (!impl_->failed()) {
    if (absl::Status status = impl_->Check(*schedule); !status.ok()) {
      refuse(std::move(status));
    }
  }
  const std::uint32_t slot = impl_->operations.Start(std::move(schedule), call);
  Operation& operation = impl_->operations.at(slot);
  if (!impl_->failed() && operation.steps_left() > 0 &&
      !operation.PrepareMemory()) {
    refuse(absl::ResourceExhaustedError(absl::StrCat(
        "rank ", impl_->rank, " has no memory for the ",
        operation.memory_bytes(), " bytes that ", operation.ToString(),
        " needs beside its buffers; a ring needs none, or few")));
  }
  if (!impl_->failed()) impl_->Enqueue(slot);
  return impl_->operations.last_started();
}

bool Engine::Progress() {
  bool moved = impl_->RunLocalSteps();
  moved |= impl_->WriteAll();
  if (impl_->ReadAll()) {
    // What came in may be what a local step or another link waits for.
    moved = true;
    impl_->RunLocalSteps();
    impl_->WriteAll();
  }
  return moved;
}

bool Engine::IsDone(OperationId id) const {
  return impl_->operations.IsDone(id);
}

absl::Status Engine::result(OperationId id) const {
  return impl_->operations.result(id);
}

void Engine::Forget(OperationId id) { impl_->operations.Forget(id); }

Engine::OperationId Engine::last_completed() const {
  return impl_->operations.last_completed();
}

const EngineFault& Engine::fault() const { return impl_->fault; }

void Engine::Fail(const absl::Status& status) {
  const bool only_a_hint = impl_->fault.kind == EngineFault::Kind::kPeerLost &&
                           impl_->operations.failure() == impl_->fault.status;
  if (!impl_->failed() || only_a_hint) impl_->FailAll(status);
}

void Engine::AppendInterest(std::vector<LinkInterest>* interest) const {
  for (int peer = 0; peer < impl_->world_size; ++peer) {
    const Channel& channel = impl_->channels[peer];
    LinkInterest entry;
    entry.link = channel.link;
    entry.peer = peer;
    entry.write = channel.sender.Wants(impl_->operations);
    entry.read =
        channel.receiver.Wants(impl_->operations) ||
        (impl_->LooksAhead(channel) && channel.receiver.WantsHeaderAhead());
    if (entry.read || entry.write) interest->push_back(entry);
  }
}

std::vector<int> Engine::AwaitedPeers() const {
  std::vector<int> peers;
  const Operation* const oldest = impl_->operations.oldest_unfinished();
  if (oldest == nullptr) return peers;
  for (int peer = 0; peer < impl_->world_size; ++peer) {
    const Channel& channel = impl_->channels[peer];
    const bool reads =
        channel.receiver.Wants(impl_->operations) &&
        &impl_->operations.at(channel.receiver.front().slot) == oldest;
    const bool writes =
        channel.sender.Wants(impl_->operations) &&
        &impl_->operations.at(channel.sender.front().slot) == oldest;
    if (reads || writes) peers.push_back(peer);
  }
  return peers;
}

void Engine::AppendState(std::string* state) const {
  impl_->operations.AppendState(state);
  for (const Channel& channel : impl_->channels) {
    channel.sender.AppendState(state);
    channel.receiver.AppendState(state);
  }
  absl::StrAppend(state, "f", static_cast<int>(impl_->fault.kind),
                  impl_->fault.peer);
}

std::unique_ptr<Engine> Engine::Clone() const {
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(*impl_)));
}

}  // namespace shoal::internal
