// SPDX-License-Identifier: Apache-2.0
//
// One job's common fate, as a communicator sees it: whether the job has failed,
// whom to tell when something goes wrong here, and whom to ask why.
//
// A communicator checks `failed()` between tries and reports what it finds; the
// implementation tells the other ranks (TCP: over control links, by the
// process's service thread; in one process: by shared memory). The first error
// of a job wins and stays, with the rank that caused it.
//
// All methods are thread-safe. The two that wait are bounded by the domain's
// own, short time-outs.

#ifndef SHOAL_COMM_FAILURE_DOMAIN_H_
#define SHOAL_COMM_FAILURE_DOMAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "shoal/comm/call.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

// What a rank is doing, in the words that others need to judge it.
struct OperationReport {
  // Of the collective that was entered last, from 1; 0: none yet. Collectives
  // are counted by communicator, whatever their kind; Send and Recv are not
  // counted here.
  std::uint64_t entered = 0;
  std::uint64_t last_completed = 0;
  // False between calls.
  bool in_operation = false;
  // False while in Send, Recv or SendRecv, which say nothing about `entered`.
  bool collective = true;
  std::string operation;      // "AllReduce(f32 x 100, sum, ring) #17"
  std::vector<int> awaiting;  // ranks whose bytes are needed
};

class FailureDomain {
 public:
  virtual ~FailureDomain() = default;

  // One acquire load; called between tries.
  virtual bool failed() const = 0;

  // OK, or the first error of the job.
  virtual absl::Status status() const = 0;

  // Something went wrong here, by the doing of `culprit` (-1: nobody's): tells
  // all ranks, unless the job had failed already.
  virtual void Fail(int culprit, const absl::Status& status) = 0;

  // A data link to `peer` ended in the middle of `operation`. Waits a moment
  // for the reason (the peer's death, its goodbye, or an abort that names
  // another rank) and returns the job's error, which is never OK.
  virtual absl::Status FailAfterLostLink(int peer,
                                         const std::string& operation) = 0;

  // The operation of `report` ran out of its `timeout`. Asks all ranks what
  // they are doing, finds the one that holds the others up, fails the job with
  // `DEADLINE_EXCEEDED` and returns the job's error, which is never OK.
  virtual absl::Status FailAfterTimeout(const OperationReport& report,
                                        absl::Duration timeout) = 0;

  // What this rank answers when others ask. Called at the start and the end of
  // every operation; cheap, so the call's text is made only when somebody asks.
  // `sequence` is that of the collective; for Send and Recv, that of the
  // message between the two ranks.
  virtual void Enter(std::uint64_t sequence, const Call& call) = 0;
  virtual void Leave(std::uint64_t sequence, const Call& call,
                     bool completed) = 0;

  // The communicator is being destroyed and makes no more calls. When it is the
  // job's last on this rank, tells the peers goodbye, before its data links
  // end. Called once by each communicator.
  virtual void BeginClose() = 0;

  // `waker` is notified when the job fails, until it is removed.
  virtual void AddWaker(Waker* waker) = 0;
  virtual void RemoveWaker(Waker* waker) = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FAILURE_DOMAIN_H_
