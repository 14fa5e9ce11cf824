// SPDX-License-Identifier: Apache-2.0
//
// The calls that one communicator has under way, with the state machines that
// carry them out: engine.h for collectives, point_to_point.h for messages. It
// owns their links, keeps the deadlines, and writes calls into the log when
// they end; it knows nothing of other threads, nor of the job.
//
// Nothing waits. Threads: those of the communicator's driver, one at a time;
// `log()` is thread-safe.

#ifndef SHOAL_COMM_ACTIVE_CALLS_H_
#define SHOAL_COMM_ACTIVE_CALLS_H_

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/driven_call.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_links.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

class ActiveCalls {
 public:
  using Clock = DrivenCall::Clock;

  struct Options {
    // Of this rank in the communicator, and how many there are.
    int rank = 0;
    int world_size = 1;
    // What error messages say behind a call; see EngineDriver::name.
    std::string name;
    // One link for each rank, null for this one.
    std::vector<std::unique_ptr<Link>> links;
    std::unique_ptr<PointToPointLinks> point_to_point_links;
    // Notified of links that peers open.
    std::shared_ptr<Waker> waker;
    EngineOptions engine;
    // See MessageLinks.
    Clock::duration late_link_grace{};
  };

  // What has gone wrong first. Ranks are those of the communicator.
  struct Fault {
    int peer = -1;
    // A connection has ended: `operation` is the call that it concerns, in
    // words. Otherwise `status` says what it is.
    bool lost = false;
    std::string operation;
    absl::Status status;
  };

  explicit ActiveCalls(Options options);

  // Gives a call with its sequence numbers to the machines.
  void Begin(DrivenCall* call);

  bool empty() const { return active_.empty(); }
  bool has_messages() const { return messages_under_way_ > 0; }
  // The number of the last collective that has ended, 0 before.
  std::uint64_t last_completed() const { return engine_.last_completed(); }

  // Moves what can be moved; true if anything was. Messages are looked after
  // if asked for.
  bool Progress(bool with_messages);

  // A fault is pending until `Fail` is called.
  bool HasFault() const;
  Fault fault() const;  // REQUIRES: HasFault()

  // Ends all calls, and every later one, with an error.
  void Fail(const absl::Status& status);
  bool failed() const { return failed_; }

  // Appends the calls that are done to `done`, settled, and forgets them. None
  // while a fault is pending: how they come out is not known yet.
  void TakeDone(std::vector<DrivenCall*>* done);

  // Sets deadlines that are not set, and looks for senders that have left.
  // Returns when to look again.
  Clock::time_point CheckTime(Clock::time_point now);
  // A call whose deadline has passed; null: none.
  const DrivenCall* FindLate(Clock::time_point now) const;
  // About a call of these that is late; `awaiting` has ranks of the
  // communicator. What the communicator itself is, is left open.
  OperationReport ReportOn(const DrivenCall& late) const;

  // Appends what to poll. Links without a descriptor notify the waker.
  void AppendDescriptors(std::vector<struct pollfd>* descriptors);

  // All links, also those that peers have just opened. For the end: `Clear`
  // ends them, and nothing but the destructor may follow.
  std::vector<Link*> AllLinks();
  void Clear();

  CallLog& log() { return log_; }

 private:
  bool IsDone(const DrivenCall::Part& part) const;
  // Takes a part's result out of its machine, and notes it; whether it is OK.
  bool TakeResult(const DrivenCall& call, const DrivenCall::Part& part,
                  Clock::time_point now);
  // Calls `visit` with each peer from which a message is awaited, and which has
  // not opened a link to send on.
  template <typename Visit>
  void ForEachUnlinkedSender(Visit visit) const;
  // The call that a fault of a machine with `peer` concerns, in words.
  std::string Concerned(bool message, int peer) const;

  const int rank_;
  const int world_size_;
  const std::string name_;
  std::vector<std::unique_ptr<Link>> links_;
  Engine engine_;
  PointToPoint messages_;
  MessageLinks message_links_;
  bool failed_ = false;
  std::vector<DrivenCall*> active_;
  int messages_under_way_ = 0;
  std::vector<LinkInterest> interest_;  // kept to be used again
  CallLog log_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ACTIVE_CALLS_H_
