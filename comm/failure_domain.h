// SPDX-License-Identifier: Apache-2.0
//
// One job's common fate, as its communicators see it: whether the job has
// failed, whom to tell when something goes wrong here, and whom to ask why.
//
// A communicator checks `failed()` between tries and reports what it finds; the
// implementation tells the other ranks (TCP: over control links, by the
// process's service thread; in one process: by shared memory). The first error
// of a job wins and stays, with the rank that caused it. All communicators of
// a job share its fate: that of the world, and those which `Split` makes.
//
// Ranks here are the job's, which are those of the world.
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
#include "shoal/base/dialect.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {

// Tells a job's communicators apart; the same on all ranks of one.
using CommunicatorId = std::uint64_t;
inline constexpr CommunicatorId kWorldId = 0;
// Where any one will do.
inline constexpr CommunicatorId kAnyCommunicator = ~CommunicatorId{0};

// What a rank is doing, in the words that others need to judge it.
struct OperationReport {
  CommunicatorId communicator = kWorldId;
  // The ranks of the communicator; empty: all.
  std::vector<int> members;
  // Of the collective that was entered last, from 1; 0: none yet. Collectives
  // are counted by communicator, whatever their kind; Send and Recv are not
  // counted here. Of an operation that ran out of time: its own.
  std::uint64_t entered = 0;
  // All collectives up to this one have completed.
  std::uint64_t last_completed = 0;
  // False while nothing is under way.
  bool in_operation = false;
  // Whether `operation` is a collective of this communicator: the oldest that
  // is not done, #(last_completed + 1). Otherwise it is a Send, a Recv or a
  // SendRecv, or something in another communicator.
  bool collective = true;
  std::string operation;      // "AllReduce(f32 x 100, sum, ring) #17"
  std::vector<int> awaiting;  // ranks whose bytes are needed
};

// A communicator, as the domain sees it.
class ReportSource {
 public:
  virtual ~ReportSource() = default;

  // What this rank is doing in the communicator. Thread-safe. Called while the
  // domain holds its locks, so it must not call the domain.
  virtual OperationReport Report() const = 0;
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

  // The operation of `report` ran out of its `timeout`. Asks the ranks of its
  // communicator what they are doing, finds the one that holds the others up,
  // fails the job with `DEADLINE_EXCEEDED` and returns the job's error, which
  // is never OK.
  virtual absl::Status FailAfterTimeout(const OperationReport& report,
                                        absl::Duration timeout) = 0;

  // A communicator has come to this rank. Until it is removed, `waker` is
  // notified when the job fails, and `source` is asked when other ranks want
  // to know what this one is doing.
  virtual void AddCommunicator(CommunicatorId id, const ReportSource* source,
                               Waker* waker) = 0;

  // The communicator makes no more calls, and its data links are about to end.
  // With the job's last on this rank the peers are told goodbye.
  virtual void RemoveCommunicator(CommunicatorId id) = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FAILURE_DOMAIN_H_
