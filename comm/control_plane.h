// SPDX-License-Identifier: Apache-2.0
//
// Decides what became of a job: who died, who left, who holds the others up,
// and which error every rank returns. A state machine without threads, sockets
// or clock; its driver moves its messages over control links and tells it the
// time.
//
// One belongs to each rank of a job. The control links form a full mesh: each
// message goes straight to its rank, in order.
//
// Rules.
// - The first error of a job stays. A rank that has an error tells all others
//   (kAbort), whether it found it or was told: so all learn of the same culprit
//   even if the rank that found it dies while it tells. An abort is passed on
//   once, because a second one finds the job failed.
// - A control link that ends without abort or goodbye makes its rank a suspect.
//   After `grace` without a better reason the rank has died: UNAVAILABLE. The
//   first suspect is the culprit; a rank that fell over another's death sends
//   an abort before its own end.
// - A rank that says goodbye has left. That is no error until an operation
//   needs it (a data link to it ends, or a time-out finds it awaited):
//   UNAVAILABLE.
// - A data link that ends is a hint only. If `grace` passes and neither its
//   rank nor another gives a reason, the lost link itself is the reason.
// - After a time-out all ranks are asked what they are doing (kQuery) and
//   answer at once (kAnswer), whatever state they are in. A rank that is in
//   another call at the same place in the order is a mismatch:
//   FAILED_PRECONDITION. Otherwise the culprit is the lowest rank that has not
//   answered within `answer_window` ("silent"), else an awaited one that has
//   left, else the one that is furthest behind in the order of collectives
//   ("alive, last completed #16"), else the rank whose bytes are awaited:
//   DEADLINE_EXCEEDED. Silence alone is never taken for death: a stopped or
//   starved rank looks the same.
// - A time-out concerns the ranks of one communicator only: they are asked
// about
//   that one, and no other rank is a culprit.
// - What was noticed first counts: while a rank is suspected, neither a
//   time-out nor the leaving of another is judged.
//
// Threads: one at a time.

#ifndef SHOAL_COMM_CONTROL_PLANE_H_
#define SHOAL_COMM_CONTROL_PLANE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/comm/failure_domain.h"

namespace shoal::internal {

// The numeric values are part of the wire format.
enum class ControlKind : std::uint8_t {
  kAbort = 1,    // culprit, code, text
  kGoodbye = 2,  // the sender makes no more calls
  kQuery = 3,    // query, communicator
  kAnswer = 4,   // query, report
};

struct ControlMessage {
  // What peers may say at most; a longer text is cut.
  static constexpr std::size_t kMaxTextBytes = 4096;

  ControlKind kind = ControlKind::kGoodbye;
  std::int32_t culprit = -1;  // -1: nobody's doing
  std::int32_t code = 0;      // absl::StatusCode
  std::string text;
  std::uint64_t query = 0;
  CommunicatorId communicator = kWorldId;
  OperationReport report;
};

struct ControlPlaneOptions {
  absl::Duration grace;
  absl::Duration answer_window;
};

class ControlPlane {
 public:
  // `rank_names` has one element a rank, as messages name it: "rank 2
  // (10.0.0.3:41234, pid 77)". `report` says what this rank is doing in a
  // communicator; it is called when a peer asks.
  ControlPlane(int rank, std::vector<std::string> rank_names,
               const ControlPlaneOptions& options,
               std::function<OperationReport(CommunicatorId)> report);

  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // What arrives. `peer` is another rank of the job; `reason` is why the stream
  // ended, in the operating system's words, or empty. Messages that make no
  // sense (an unknown kind, a culprit outside the world) are taken as far as
  // they do.
  void OnMessage(int peer, const ControlMessage& message);
  void OnEndOfStream(int peer, absl::string_view reason, absl::Time now);

  // What this rank finds or wants. `operation` is in words ("Barrier #4").
  void OnDataLinkLost(int peer, absl::string_view operation, absl::Time now);
  void OnOperationTimeout(const OperationReport& report, absl::Duration timeout,
                          absl::Time now);
  // `status` is not OK.
  void OnLocalFailure(int culprit, const absl::Status& status);
  // This rank leaves. From here on the ends of others are no failures.
  void OnGoodbye();

  // To be called at `next_tick()` or later; infinite when nothing is pending.
  void Tick(absl::Time now);
  absl::Time next_tick() const;

  // The messages to send, in order; false when there is none.
  bool TakeOutgoing(int* peer, ControlMessage* message);

  bool failed() const { return !status_.ok(); }
  // OK, or the job's first error as far as this rank knows.
  const absl::Status& status() const { return status_; }
  // Whose doing that was; -1: nobody's, or not failed.
  int culprit() const { return culprit_; }
  bool said_goodbye(int peer) const { return peers_[peer].goodbye; }

  // A canonical text of the whole state, with times relative to `now`, for
  // merging states in exhaustive simulation.
  void AppendState(absl::Time now, std::string* state) const;

 private:
  struct Peer {
    bool goodbye = false;
    bool ended = false;
    std::string end_reason;
    // Set while the peer is suspected of having died.
    std::optional<absl::Time> verdict_due;
    // To the query of `inquiry_`.
    std::optional<OperationReport> answer;
  };

  struct LostLink {
    int peer = -1;
    std::string operation;
    absl::Time verdict_due;
  };

  struct Inquiry {
    OperationReport report;
    absl::Duration timeout;
    std::uint64_t query = 0;
    absl::Time verdict_due;
  };

  int world_size() const { return static_cast<int>(peers_.size()); }
  void SendToAll(const ControlMessage& message, int except);
  // Fails the job and tells all ranks but `told_by`.
  void Fail(int culprit, const absl::Status& status, int told_by);
  void DeclareDead(int peer);
  void DeclareLeft(int peer, absl::string_view operation);
  // The suspect whose verdict is due first; -1: none.
  int FirstSuspect() const;
  void JudgeLostLink();
  // Whether the inquiry concerns the rank.
  bool IsAsked(int peer) const;
  bool AllHaveAnswered() const;
  void JudgeInquiry();
  // Each -1 if there is none.
  int InAnotherCall() const;
  int LowestSilent() const;
  int AwaitedThatLeft() const;
  int FurthestBehind() const;
  int AwaitedThatAnswered() const;
  void FailMismatch(int peer);
  void FailInquiry(int culprit, absl::string_view words);

  const int rank_;
  const std::vector<std::string> names_;
  const ControlPlaneOptions options_;
  const std::function<OperationReport(CommunicatorId)> report_;

  bool leaving_ = false;
  absl::Status status_;
  int culprit_ = -1;
  std::vector<Peer> peers_;  // this rank's element stays unused
  std::optional<LostLink> lost_link_;
  std::optional<Inquiry> inquiry_;
  std::uint64_t queries_ = 0;
  std::deque<std::pair<int, ControlMessage>> outgoing_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_CONTROL_PLANE_H_
