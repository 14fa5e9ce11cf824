// SPDX-License-Identifier: Apache-2.0
//
// Runs Send and Recv over links: a state machine without threads, sockets or
// clock.
//
// One belongs to each rank of a communicator. It is given operations and is
// asked again and again to make progress; each time it moves whatever its links
// will take or give. Any number of operations may be under way.
//
// Matching. The k-th Send of rank a to rank b with tag t meets the k-th Recv of
// rank b from rank a with tag t. Messages with different tags pass one another.
//
// Links. Each ordered pair of ranks has a link of its own, opened by the sender
// when it first sends (`PeerWithoutOutgoing` says so) and given to each side by
// `SetOutgoing` and `SetIncoming`; on the receiver that may be before or after
// the matching Recv. Messages flow from sender to receiver; only requests for
// announced messages and credit flow back. docs/wire.md has the table.
//
// Small and large messages. A payload of at most `eager_bytes` goes at once,
// with its header in one write, as long as the receiver has credit left for it;
// the receiver keeps it until a Recv asks for it, and then gives the credit
// back. Any other is announced, and moves when its Recv has been posted. Thus
// the memory for messages that nobody has asked for is bounded by
// `credit_bytes` for each peer, and a message that waits keeps no other back.
//
// Progress. A rank which waits here also takes in what nobody has asked for
// yet, so that a small Send ends without its Recv. A rank that waits elsewhere
// (in a collective) for long should call `Progress` now and then too.
//
// Failures. Found here are: a link ended that an operation still needs
// (`kPeerLost`; the caller finds out why and calls `Fail`), a Send and a Recv
// that differ in count or type (`kMismatch`), and bytes that are no message of
// this protocol (`kCorrupt`). After a fault, and after `Fail`, nothing moves
// any more. A link that ends while no operation needs it is no fault.
//
// Nothing is allocated for a message, except the memory for one that arrives
// before its Recv, once the largest number of concurrent operations was seen.
//
// Threads: one at a time.

#ifndef SHOAL_COMM_POINT_TO_POINT_H_
#define SHOAL_COMM_POINT_TO_POINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shoal/comm/call.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/point_to_point_options.h"

namespace shoal::internal {

class PointToPoint {
 public:
  // Never 0. Not the wire's sequence number.
  using OperationId = std::uint64_t;

  PointToPoint(int rank, int world_size,
               const PointToPointOptions& options = {});
  ~PointToPoint();

  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  // The link on which this rank sends to `peer`, or receives from it. Once for
  // each; the links must outlive this object. A second incoming link of one
  // peer is the fault `kCorrupt`.
  void SetOutgoing(int peer, Link* link);
  void SetIncoming(int peer, Link* link);

  // The lowest rank, from `first` on, to which something has to be sent and no
  // link was given; -1: none.
  int PeerWithoutOutgoing(int first = 0) const;

  // Accepts an operation and makes no progress yet, except that a Recv takes at
  // once what has already arrived. The call's memory must stay valid, and a
  // Send's unchanged, until the operation is done. `call.peer` is another rank.
  // After a failure the operation is done at once, with its status.
  OperationId StartSend(const Call& call);
  OperationId StartRecv(const Call& call);

  // Moves what can be moved, on all links; true if anything moved. Never waits.
  bool Progress();

  // The same on one link and in one direction only, for simulation.
  enum class Port {
    kOutgoingWrite,
    kOutgoingRead,
    kIncomingRead,
    kIncomingWrite
  };
  bool ProgressOn(int peer, Port port);

  // An operation is done when its memory is the caller's again: a Recv has its
  // message, a Send has handed its last byte to the link; or after a failure.
  // Results are kept until `Forget`. After a fault and before `Fail` the result
  // of an operation that the fault has ended is the fault's status.
  bool IsDone(OperationId id) const;
  absl::Status result(OperationId id) const;  // REQUIRES: IsDone(id)
  void Forget(OperationId id);                // REQUIRES: IsDone(id)

  // The first fault; kNone while all is well.
  const EngineFault& fault() const;

  // Ends all operations with `status` (not OK), and every later one. The first
  // failure stays.
  void Fail(const absl::Status& status);

  // Appends the links on which progress depends now. Incoming links are among
  // them while they are open, also when no operation is pending.
  void AppendInterest(std::vector<LinkInterest>* interest) const;

  // The peers of all unfinished operations, in ascending order.
  std::vector<int> AwaitedPeers() const;

  // What the unfinished operations wait for, for error messages: "Send(f32 x
  // 100000 to rank 1, tag 3) waits for its Recv; ...". A few of them; empty
  // when there are none.
  std::string DescribeUnfinished() const;

  // Bytes kept for messages of `peer` that no Recv has asked for, headers
  // counted in, announcements not.
  std::size_t unexpected_bytes(int peer) const;

  // A canonical text of the whole state (queues, credit, partial messages), for
  // merging states in exhaustive simulation.
  void AppendState(std::string* state) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_POINT_TO_POINT_H_
