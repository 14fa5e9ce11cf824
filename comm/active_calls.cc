// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/active_calls.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/driven_call.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/monotonic_clock.h"

namespace shoal::internal {
namespace {

using Clock = ActiveCalls::Clock;

std::int64_t Nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

std::vector<Link*> Pointers(const std::vector<std::unique_ptr<Link>>& links) {
  std::vector<Link*> pointers;
  for (const auto& link : links) pointers.push_back(link.get());
  return pointers;
}

}  // namespace

ActiveCalls::ActiveCalls(Options options)
    : rank_(options.rank),
      world_size_(options.world_size),
      name_(std::move(options.name)),
      links_(std::move(options.links)),
      engine_(rank_, world_size_, Pointers(links_), options.engine),
      messages_(rank_, world_size_),
      message_links_(world_size_, std::move(options.point_to_point_links),
                     std::move(options.waker), options.late_link_grace,
                     &messages_) {}

void ActiveCalls::Begin(DrivenCall* call) {
  active_.push_back(call);
  for (DrivenCall::Part& part : call->parts) {
    if (!part.is_message()) {
      part.id = engine_.Start(part.schedule, part.call);
      continue;
    }
    ++messages_under_way_;
    message_links_.Adopt();
    if (part.call.signature.kind == CallKind::kRecv) {
      part.id = messages_.StartRecv(part.call);
    } else {
      part.id = messages_.StartSend(part.call);
      if (!failed_) message_links_.Open(part.call.peer);
    }
  }
}

bool ActiveCalls::Progress(bool with_messages) {
  bool moved = engine_.Progress();
  if (with_messages) {
    if (message_links_.Progress()) moved = true;
    if (messages_.Progress()) moved = true;
  }
  return moved;
}

bool ActiveCalls::HasFault() const {
  return !failed_ && (!engine_.fault().ok() || !messages_.fault().ok() ||
                      !message_links_.unreachable().ok());
}

ActiveCalls::Fault ActiveCalls::fault() const {
  const bool in_messages = engine_.fault().ok();
  Fault fault;
  if (in_messages && messages_.fault().ok()) {
    fault.peer = message_links_.unreachable_peer();
    const absl::Status& reason = message_links_.unreachable();
    if (absl::IsResourceExhausted(reason)) {
      // What this rank lacks is not the peer's end.
      fault.status = absl::Status(
          reason.code(), absl::StrCat("rank ", rank_, ": ",
                                      Concerned(/*message=*/true, fault.peer),
                                      ": ", reason.message()));
      fault.peer = rank_;
      return fault;
    }
    fault.lost = true;
    fault.operation =
        absl::StrCat(Concerned(/*message=*/true, fault.peer), " (",
                     message_links_.unreachable().message(), ")");
    return fault;
  }
  const EngineFault& found = in_messages ? messages_.fault() : engine_.fault();
  fault.peer = found.peer;
  fault.lost = found.kind == EngineFault::Kind::kPeerLost;
  if (fault.lost) {
    fault.operation = Concerned(in_messages, found.peer);
  } else {
    fault.status = absl::Status(found.status.code(),
                                absl::StrCat(found.status.message(), name_));
  }
  return fault;
}

void ActiveCalls::Fail(const absl::Status& status) {
  failed_ = true;
  engine_.Fail(status);
  messages_.Fail(status);
}

void ActiveCalls::TakeDone(std::vector<DrivenCall*>* done) {
  if (HasFault()) return;
  std::size_t kept = 0;
  Clock::time_point now{};
  for (DrivenCall* const call : active_) {
    if (!std::all_of(call->parts.begin(), call->parts.end(),
                     [this](const auto& part) { return IsDone(part); })) {
      active_[kept++] = call;
      continue;
    }
    if (now == Clock::time_point{}) now = Clock::now();
    for (const DrivenCall::Part& part : call->parts) {
      call->succeeded &= TakeResult(*call, part, now);
    }
    call->settled = true;
    done->push_back(call);
  }
  active_.resize(kept);
}

bool ActiveCalls::IsDone(const DrivenCall::Part& part) const {
  return part.is_message() ? messages_.IsDone(part.id)
                           : engine_.IsDone(part.id);
}

bool ActiveCalls::TakeResult(const DrivenCall& call,
                             const DrivenCall::Part& part,
                             Clock::time_point now) {
  CallRecord record;
  if (part.is_message()) {
    record.succeeded = messages_.result(part.id).ok();
    messages_.Forget(part.id);
    --messages_under_way_;
  } else {
    record.succeeded = engine_.result(part.id).ok();
    engine_.Forget(part.id);
  }
  record.call = &part.call;
  record.sequence = part.sequence;
  record.bytes = DataBytes(part.call, rank_, world_size_);
  record.begin_ns = Nanoseconds(call.begin.time_since_epoch());
  record.end_ns = Nanoseconds(now.time_since_epoch());
  record.waiting_ns = Nanoseconds(call.waiting);
  log_.Add(record);
  return record.succeeded;
}

Clock::time_point ActiveCalls::CheckTime(Clock::time_point now) {
  Clock::time_point earliest = Clock::time_point::max();
  for (DrivenCall* const call : active_) {
    if (call->deadline == Clock::time_point{}) {
      call->deadline = now + ToClockDuration(call->timeout);
    }
    earliest = std::min(earliest, call->deadline);
  }
  if (messages_under_way_ == 0 || failed_) return earliest;
  ForEachUnlinkedSender([&](int peer) {
    earliest = std::min(earliest,
                        message_links_.CheckSender(peer, *links_[peer], now));
  });
  return earliest;
}

const DrivenCall* ActiveCalls::FindLate(Clock::time_point now) const {
  for (const DrivenCall* const call : active_) {
    if (call->deadline != Clock::time_point{} && now >= call->deadline) {
      return call;
    }
  }
  return nullptr;
}

OperationReport ActiveCalls::ReportOn(const DrivenCall& late) const {
  const DrivenCall::Part* part = &late.parts[0];
  for (const DrivenCall::Part& each : late.parts) {
    if (!IsDone(each)) part = &each;
  }
  OperationReport report;
  report.last_completed = engine_.last_completed();
  report.entered = part->is_message() ? report.last_completed : part->sequence;
  report.in_operation = true;
  report.collective = !part->is_message();
  report.operation = part->Describe(name_);
  if (part->is_message()) {
    absl::StrAppend(&report.operation, " [", messages_.DescribeUnfinished(),
                    "]");
  }
  report.awaiting =
      part->is_message() ? messages_.AwaitedPeers() : engine_.AwaitedPeers();
  return report;
}

void ActiveCalls::AppendDescriptors(std::vector<struct pollfd>* descriptors) {
  interest_.clear();
  engine_.AppendInterest(&interest_);
  messages_.AppendInterest(&interest_);
  for (const LinkInterest& interest : interest_) {
    const int descriptor = interest.link->descriptor();
    if (descriptor < 0) continue;
    short events = 0;
    if (interest.read) events |= POLLIN;
    if (interest.write) events |= POLLOUT;
    descriptors->push_back({descriptor, events, 0});
  }
  message_links_.AppendDescriptors(descriptors);
  ForEachUnlinkedSender([&](int peer) {
    const int descriptor = links_[peer]->descriptor();
    if (descriptor < 0 || message_links_.HasEnded(peer)) return;
    descriptors->push_back({descriptor, POLLRDHUP, 0});
  });
}

std::vector<Link*> ActiveCalls::AllLinks() {
  message_links_.Adopt();
  std::vector<Link*> links;
  for (const auto& link : links_) {
    if (link != nullptr) links.push_back(link.get());
  }
  message_links_.AppendLinks(&links);
  return links;
}

void ActiveCalls::Clear() {
  links_.clear();
  message_links_.Clear();
}

template <typename Visit>
void ActiveCalls::ForEachUnlinkedSender(Visit visit) const {
  for (const DrivenCall* const call : active_) {
    for (const DrivenCall::Part& part : call->parts) {
      if (part.call.signature.kind != CallKind::kRecv) continue;
      if (!message_links_.IsLinked(part.call.peer)) visit(part.call.peer);
    }
  }
}

std::string ActiveCalls::Concerned(bool message, int peer) const {
  const DrivenCall::Part* concerned = nullptr;
  for (const DrivenCall* call : active_) {
    for (const DrivenCall::Part& part : call->parts) {
      if (concerned == nullptr) concerned = &part;
      if (part.is_message() != message) continue;
      if (!message || part.call.peer == peer) return part.Describe(name_);
    }
  }
  return concerned == nullptr ? absl::StrCat("no operation", name_)
                              : concerned->Describe(name_);
}

}  // namespace shoal::internal
