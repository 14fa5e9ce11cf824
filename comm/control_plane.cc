// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/control_plane.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/comm/failure_domain.h"

namespace shoal::internal {
namespace {

// A code that no error has is not believed.
absl::StatusCode CheckedCode(std::int32_t code) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnauthenticated:
      return static_cast<absl::StatusCode>(code);
    default:
      return absl::StatusCode::kUnknown;
  }
}

absl::string_view CutText(absl::string_view text) {
  return text.substr(0, ControlMessage::kMaxTextBytes);
}

// What a rank was doing when it answered.
std::string Doing(const OperationReport& report) {
  if (!report.in_operation) return "in no call";
  return absl::StrCat("in ", report.operation);
}

}  // namespace

ControlPlane::ControlPlane(
    int rank, std::vector<std::string> rank_names,
    const ControlPlaneOptions& options,
    std::function<OperationReport(CommunicatorId)> report)
    : rank_(rank),
      names_(std::move(rank_names)),
      options_(options),
      report_(std::move(report)),
      peers_(names_.size()) {}

void ControlPlane::OnMessage(int peer, const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::kAbort: {
      const int culprit = message.culprit >= 0 && message.culprit < world_size()
                              ? message.culprit
                              : -1;
      Fail(culprit,
           absl::Status(CheckedCode(message.code), CutText(message.text)),
           /*told_by=*/peer);
      return;
    }
    case ControlKind::kGoodbye:
      peers_[peer].goodbye = true;
      if (lost_link_.has_value() && lost_link_->peer == peer &&
          FirstSuspect() < 0) {
        JudgeLostLink();
      }
      return;
    case ControlKind::kQuery: {
      ControlMessage answer;
      answer.kind = ControlKind::kAnswer;
      answer.query = message.query;
      answer.report = report_(message.communicator);
      outgoing_.emplace_back(peer, std::move(answer));
      return;
    }
    case ControlKind::kAnswer:
      if (!inquiry_.has_value() || message.query != inquiry_->query) return;
      peers_[peer].answer = message.report;
      if (AllHaveAnswered()) JudgeInquiry();
      return;
  }
}

void ControlPlane::OnEndOfStream(int peer, absl::string_view reason,
                                 absl::Time now) {
  Peer& state = peers_[peer];
  if (state.ended) return;
  state.ended = true;
  state.end_reason = std::string(reason);
  if (failed() || leaving_) return;
  if (!state.goodbye) state.verdict_due = now + options_.grace;
}

void ControlPlane::OnDataLinkLost(int peer, absl::string_view operation,
                                  absl::Time now) {
  if (failed() || lost_link_.has_value()) return;
  lost_link_ = LostLink{peer, std::string(operation), now + options_.grace};
  if (peers_[peer].goodbye && FirstSuspect() < 0) JudgeLostLink();
}

void ControlPlane::OnOperationTimeout(const OperationReport& report,
                                      absl::Duration timeout, absl::Time now) {
  if (failed() || inquiry_.has_value()) return;
  inquiry_ = Inquiry{report, timeout, ++queries_, now + options_.answer_window};
  for (Peer& peer : peers_) peer.answer.reset();
  ControlMessage query;
  query.kind = ControlKind::kQuery;
  query.query = inquiry_->query;
  query.communicator = report.communicator;
  for (int peer = 0; peer < world_size(); ++peer) {
    if (!IsAsked(peer) || peers_[peer].ended) continue;
    outgoing_.emplace_back(peer, query);
  }
  if (AllHaveAnswered()) JudgeInquiry();
}

void ControlPlane::OnLocalFailure(int culprit, const absl::Status& status) {
  Fail(culprit, status, /*told_by=*/-1);
}

void ControlPlane::OnGoodbye() {
  if (leaving_) return;
  leaving_ = true;
  for (Peer& peer : peers_) peer.verdict_due.reset();
  ControlMessage goodbye;
  goodbye.kind = ControlKind::kGoodbye;
  SendToAll(goodbye, /*except=*/-1);
}

void ControlPlane::Tick(absl::Time now) {
  if (failed()) return;
  // Of several suspects the first is the culprit: the others fell over it.
  const int suspect = FirstSuspect();
  if (suspect >= 0 && *peers_[suspect].verdict_due <= now) {
    return DeclareDead(suspect);
  }
  if (lost_link_.has_value() && lost_link_->verdict_due <= now) {
    return JudgeLostLink();
  }
  if (suspect < 0 && inquiry_.has_value() && inquiry_->verdict_due <= now) {
    JudgeInquiry();
  }
}

absl::Time ControlPlane::next_tick() const {
  absl::Time next = absl::InfiniteFuture();
  if (failed()) return next;
  if (lost_link_.has_value()) next = lost_link_->verdict_due;
  if (const int suspect = FirstSuspect(); suspect >= 0) {
    return std::min(next, *peers_[suspect].verdict_due);
  }
  if (inquiry_.has_value()) next = std::min(next, inquiry_->verdict_due);
  return next;
}

int ControlPlane::FirstSuspect() const {
  int first = -1;
  for (int peer = 0; peer < world_size(); ++peer) {
    const std::optional<absl::Time>& due = peers_[peer].verdict_due;
    if (!due.has_value()) continue;
    if (first < 0 || *due < *peers_[first].verdict_due) first = peer;
  }
  return first;
}

bool ControlPlane::TakeOutgoing(int* peer, ControlMessage* message) {
  if (outgoing_.empty()) return false;
  *peer = outgoing_.front().first;
  *message = std::move(outgoing_.front().second);
  outgoing_.pop_front();
  return true;
}

void ControlPlane::SendToAll(const ControlMessage& message, int except) {
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer == rank_ || peer == except || peers_[peer].ended) continue;
    outgoing_.emplace_back(peer, message);
  }
}

void ControlPlane::Fail(int culprit, const absl::Status& status, int told_by) {
  if (failed()) return;
  status_ = absl::Status(status.code(), CutText(status.message()));
  culprit_ = culprit;
  ControlMessage abort;
  abort.kind = ControlKind::kAbort;
  abort.culprit = culprit;
  abort.code = static_cast<std::int32_t>(status.code());
  abort.text = std::string(status_.message());
  SendToAll(abort, told_by);
}

void ControlPlane::DeclareDead(int peer) {
  const std::string& reason = peers_[peer].end_reason;
  const OperationReport report = report_(kAnyCommunicator);
  Fail(
      peer,
      absl::UnavailableError(absl::StrCat(
          names_[peer], " died: its control connection ended without a goodbye",
          reason.empty() ? "" : " (", reason, reason.empty() ? "" : ")",
          report.in_operation ? absl::StrCat(", while ", names_[rank_],
                                             " was in ", report.operation)
                              : "",
          "; see its output for the cause, and start the job again")),
      /*told_by=*/-1);
}

void ControlPlane::DeclareLeft(int peer, absl::string_view operation) {
  Fail(peer,
       absl::UnavailableError(absl::StrCat(
           names_[peer], " left: it closed its communicator, but ",
           names_[rank_], " needs it in ", operation,
           "; destroy communicators only after the last operation")),
       /*told_by=*/-1);
}

void ControlPlane::JudgeLostLink() {
  const LostLink& lost = *lost_link_;
  const Peer& peer = peers_[lost.peer];
  if (peer.goodbye) return DeclareLeft(lost.peer, lost.operation);
  if (peer.ended) return DeclareDead(lost.peer);
  Fail(lost.peer,
       absl::UnavailableError(absl::StrCat(
           "the data connection between ", names_[rank_], " and ",
           names_[lost.peer], " ended in ", lost.operation,
           ", although its control connection is alive; it has destroyed that "
           "communicator, or something interrupts connections between the "
           "two")),
       /*told_by=*/-1);
}

bool ControlPlane::IsAsked(int peer) const {
  if (peer == rank_) return false;
  const std::vector<int>& members = inquiry_->report.members;
  return members.empty() ||
         std::find(members.begin(), members.end(), peer) != members.end();
}

bool ControlPlane::AllHaveAnswered() const {
  // Whether a suspect is dead has to be known first.
  if (FirstSuspect() >= 0) return false;
  for (int peer = 0; peer < world_size(); ++peer) {
    const Peer& state = peers_[peer];
    if (!IsAsked(peer) || state.ended) continue;
    if (!state.answer.has_value()) return false;
  }
  return true;
}

void ControlPlane::JudgeInquiry() {
  const OperationReport& late = inquiry_->report;
  if (const int other = InAnotherCall(); other >= 0) {
    return FailMismatch(other);
  }
  if (const int silent = LowestSilent(); silent >= 0) {
    return FailInquiry(silent,
                       "silent: it answers no question (stopped, cut off or "
                       "starved)");
  }
  if (const int left = AwaitedThatLeft(); left >= 0) {
    return DeclareLeft(left, late.operation);
  }
  if (const int behind = FurthestBehind(); behind >= 0) {
    const OperationReport& answer = *peers_[behind].answer;
    return FailInquiry(
        behind, absl::StrCat("alive, last completed #", answer.last_completed,
                             ", ", Doing(answer)));
  }
  if (const int awaited = AwaitedThatAnswered(); awaited >= 0) {
    return FailInquiry(awaited,
                       absl::StrCat("alive, ", Doing(*peers_[awaited].answer),
                                    ": nothing comes or goes between the two"));
  }
  FailInquiry(-1, "no rank is awaited");
}

// Ranks that make different calls may all wait for messages that nobody sends,
// so that none of them meets a message of another call.
int ControlPlane::InAnotherCall() const {
  const OperationReport& late = inquiry_->report;
  if (!late.collective) return -1;
  for (int peer = 0; peer < world_size(); ++peer) {
    const std::optional<OperationReport>& answer = peers_[peer].answer;
    if (!answer.has_value() || !answer->in_operation || !answer->collective) {
      continue;
    }
    // The oldest call of each that is not done.
    if (answer->last_completed + 1 == late.entered &&
        answer->operation != late.operation) {
      return peer;
    }
  }
  return -1;
}

int ControlPlane::LowestSilent() const {
  for (int peer = 0; peer < world_size(); ++peer) {
    const Peer& state = peers_[peer];
    if (!IsAsked(peer) || state.ended || state.goodbye) continue;
    if (!state.answer.has_value()) return peer;
  }
  return -1;
}

int ControlPlane::AwaitedThatLeft() const {
  for (const int peer : inquiry_->report.awaiting) {
    if (peer < 0 || peer >= world_size() || peer == rank_) continue;
    if (peers_[peer].goodbye) return peer;
  }
  return -1;
}

// A rank may have run ahead of the one that it will wait for in turn, so that
// not every rank that has not come to this collective holds it up.
int ControlPlane::FurthestBehind() const {
  const OperationReport& late = inquiry_->report;
  if (!late.collective) return -1;
  int behind = -1;
  std::uint64_t entered = late.entered;
  for (int peer = 0; peer < world_size(); ++peer) {
    const Peer& state = peers_[peer];
    if (!state.answer.has_value() || state.goodbye) continue;
    if (state.answer->entered >= entered) continue;
    behind = peer;
    entered = state.answer->entered;
  }
  return behind;
}

int ControlPlane::AwaitedThatAnswered() const {
  for (const int peer : inquiry_->report.awaiting) {
    if (peer < 0 || peer >= world_size() || peer == rank_) continue;
    if (peers_[peer].answer.has_value()) return peer;
  }
  return -1;
}

void ControlPlane::FailMismatch(int peer) {
  Fail(peer,
       absl::FailedPreconditionError(absl::StrCat(
           names_[peer], " called ", peers_[peer].answer->operation, " where ",
           names_[rank_], " called ", inquiry_->report.operation,
           ", and neither was done after ",
           absl::FormatDuration(inquiry_->timeout),
           "; all ranks must make the same calls in the same order")),
       /*told_by=*/-1);
}

void ControlPlane::FailInquiry(int culprit, absl::string_view words) {
  const std::string who =
      culprit < 0 ? "" : absl::StrCat(names_[culprit], ", ");
  Fail(
      culprit,
      absl::DeadlineExceededError(absl::StrCat(
          names_[rank_], ": ", inquiry_->report.operation,
          " is not done after ", absl::FormatDuration(inquiry_->timeout), ": ",
          who, words, "; raise the operation's time-out if ranks need longer")),
      /*told_by=*/-1);
}

void ControlPlane::AppendState(absl::Time now, std::string* state) const {
  const auto append_due = [&](absl::Time due) {
    absl::StrAppend(state, "+", absl::ToInt64Milliseconds(due - now));
  };
  absl::StrAppend(state, "\n", leaving_ ? "leaving " : "", status_.ToString(),
                  culprit_);
  for (const Peer& peer : peers_) {
    absl::StrAppend(state, "|", peer.goodbye ? "g" : "", peer.ended ? "e" : "",
                    peer.answer.has_value() ? "a" : "");
    if (peer.verdict_due.has_value()) append_due(*peer.verdict_due);
  }
  if (lost_link_.has_value()) {
    absl::StrAppend(state, " lost", lost_link_->peer);
    append_due(lost_link_->verdict_due);
  }
  if (inquiry_.has_value()) {
    absl::StrAppend(state, " asks", inquiry_->query);
    append_due(inquiry_->verdict_due);
  }
}

}  // namespace shoal::internal
