// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/point_to_point_simulator.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/point_to_point.h"

namespace shoal::internal {

LinkResult SimulatedLink::TryWrite(absl::Span<const struct iovec> pieces) {
  ++writes_;
  if (out_->finished || out_->abandoned) return {LinkState::kEnded, 0};
  std::size_t left = std::min(*limit_, out_->capacity - out_->bytes.size());
  if (left == 0) return {LinkState::kWouldBlock, 0};
  std::size_t moved = 0;
  for (const iovec& piece : pieces) {
    const std::size_t bytes = std::min(left, piece.iov_len);
    if (bytes == 0) continue;
    out_->bytes.append(static_cast<const char*>(piece.iov_base), bytes);
    left -= bytes;
    moved += bytes;
  }
  return {LinkState::kOk, moved};
}

LinkResult SimulatedLink::TryRead(absl::Span<const struct iovec> pieces) {
  ++reads_;
  if (in_->bytes.empty()) {
    return {in_->finished ? LinkState::kEnded : LinkState::kWouldBlock, 0};
  }
  std::size_t moved = 0;
  for (const iovec& piece : pieces) {
    const std::size_t bytes =
        std::min({*limit_ - moved, in_->bytes.size() - moved, piece.iov_len});
    if (bytes == 0) continue;
    in_->bytes.copy(static_cast<char*>(piece.iov_base), bytes, moved);
    moved += bytes;
  }
  in_->bytes.erase(0, moved);
  return {LinkState::kOk, moved};
}

void SimulatedLink::End(const std::string& reason) {
  reason_ = reason;
  for (SimulatedPipe* pipe : {in_, out_}) {
    pipe->finished = true;
    pipe->abandoned = true;
  }
}

PointToPointWorld::PointToPointWorld(int size,
                                     const PointToPointOptions& options,
                                     std::size_t capacity)
    : dead_(size, false) {
  for (int rank = 0; rank < size; ++rank) {
    machines_.push_back(std::make_unique<PointToPoint>(rank, size, options));
    for (int to = 0; to < size; ++to) {
      pairs_.push_back(std::make_unique<Pair>());
      pairs_.back()->data.capacity = capacity;
      pairs_.back()->back.capacity = capacity;
    }
  }
}

void PointToPointWorld::Open(int from, int to) {
  Pair& pair = At(from, to);
  if (pair.sender != nullptr || dead_[from] || dead_[to]) return;
  pair.sender =
      std::make_unique<SimulatedLink>(&pair.back, &pair.data, &limit_);
  pair.receiver =
      std::make_unique<SimulatedLink>(&pair.data, &pair.back, &limit_);
  machines_[from]->SetOutgoing(to, pair.sender.get());
}

bool PointToPointWorld::Deliver(int from, int to) {
  Pair& pair = At(from, to);
  if (pair.receiver == nullptr || pair.delivered || dead_[to]) return false;
  pair.delivered = true;
  machines_[to]->SetIncoming(from, pair.receiver.get());
  return true;
}

void PointToPointWorld::Connect(int from, int to) {
  Open(from, to);
  Deliver(from, to);
}

void PointToPointWorld::OpenWanted() {
  for (int from = 0; from < size(); ++from) {
    if (dead_[from]) continue;
    for (int to = machines_[from]->PeerWithoutOutgoing(); to >= 0;
         to = machines_[from]->PeerWithoutOutgoing(to + 1)) {
      Open(from, to);
    }
  }
}

void PointToPointWorld::Kill(int rank) {
  dead_[rank] = true;
  for (int other = 0; other < size(); ++other) {
    for (SimulatedLink* link :
         {At(rank, other).sender.get(), At(other, rank).receiver.get()}) {
      if (link != nullptr) link->End("Connection reset by peer");
    }
  }
}

std::vector<LinkInterest> PointToPointWorld::ReadyInterest(int rank) const {
  std::vector<LinkInterest> interest;
  machines_[rank]->AppendInterest(&interest);
  std::vector<LinkInterest> ready;
  for (LinkInterest entry : interest) {
    const auto* link = static_cast<const SimulatedLink*>(entry.link);
    entry.read = entry.read && link->IsReadable();
    entry.write = entry.write && link->IsWritable();
    if (entry.read || entry.write) ready.push_back(entry);
  }
  return ready;
}

std::string PointToPointWorld::RunUntilParked() {
  // Each round moves a byte or finds an end: far fewer than this.
  constexpr int kMaxRounds = 1'000'000;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool any = false;
    for (int rank = 0; rank < size(); ++rank) {
      if (dead_[rank]) continue;
      OpenWanted();
      for (int from = 0; from < size(); ++from) any |= Deliver(from, rank);
      const std::vector<LinkInterest> before = ReadyInterest(rank);
      if (before.empty()) continue;
      any = true;
      if (machines_[rank]->Progress() || !machines_[rank]->fault().ok()) {
        continue;
      }
      // An end that was found is no movement, but it must not be looked for
      // again.
      const std::vector<LinkInterest> after = ReadyInterest(rank);
      if (after.size() >= before.size()) {
        return absl::StrCat("rank ", rank,
                            " asks for a link that is ready (of rank ",
                            after[0].peer, ") and does nothing with it");
      }
    }
    if (!any) return "";
  }
  return "no end";
}

std::string PointToPointWorld::State() const {
  std::string state;
  for (const auto& machine : machines_) machine->AppendState(&state);
  for (const auto& pair : pairs_) {
    if (pair->sender == nullptr) continue;
    absl::StrAppend(&state, "\n|", pair->data.bytes, "|", pair->back.bytes, "|",
                    pair->delivered, pair->data.finished, pair->back.finished);
  }
  return state;
}

TestMessage::TestMessage(int peer, int tag, std::int64_t count, DType dtype,
                         int seed)
    : peer(peer),
      tag(tag),
      count(count),
      dtype(dtype),
      memory(static_cast<std::size_t>(count) * DTypeSize(dtype)) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i] = static_cast<std::uint8_t>(seed * 37 + i * 11 + i / 251);
  }
}

Call TestMessage::SendCall() const {
  Call call;
  call.signature.kind = CallKind::kSend;
  call.signature.dtype = dtype;
  call.signature.count = count;
  call.input = memory.data();
  call.peer = peer;
  call.tag = tag;
  return call;
}

Call TestMessage::RecvCall() {
  Call call = SendCall();
  call.signature.kind = CallKind::kRecv;
  call.input = nullptr;
  call.output = memory.data();
  return call;
}

}  // namespace shoal::internal
