// SPDX-License-Identifier: Apache-2.0
//
// The interface by which the ranks of a world exchange and combine data.
//
// A `Communicator` is one rank's end of a group of `world_size()` ranks. Every
// rank of the group makes the same collective calls in the same order; `Send`
// and `Recv` are matched by their tag and involve two ranks only. An operation
// is done when this rank's part is: its output is complete, and its input may
// be overwritten. The plain methods block until then; each has a `Start...`
// that returns at once with a handle (pending_operation.h), so that several
// operations may be under way. Their order is that in which they were called or
// started.
//
// Buffers. Raw memory with a count of elements and a type; any alignment will
// do. The memory is the caller's and has to stay valid during the operation;
// until it is done nobody else may write to it, nor read its output. Input
// and output may be the same memory (in place, in the form that each method
// states); any other overlap is refused.
//
// Results of a reduction are the same bits on every rank, and from run to run
// for the same world and algorithm. docs/architecture.md states the order of
// the operands and the rounding of each algorithm.
//
// Errors. Wrong arguments are `INVALID_ARGUMENT`: nothing is sent, and the
// communicator stays usable. Any other error closes the communicator for good
// and, through its job, the communicators of all other ranks: each later call
// returns the first error at once. The output of a failed call is unspecified,
// but nothing writes to it after the call has returned.
//   UNAVAILABLE          a rank died or left; the message names it
//   DEADLINE_EXCEEDED    the operation's time-out passed; the message names the
//                        rank that holds the others up, the operation and its
//                        sequence number
//   FAILED_PRECONDITION  the ranks' calls do not match (the message has both),
//                        or two threads are in calls at the same time
//   whatever was given   to `Abort` by any rank
//
// Threads. One thread at a time may be in a call of a communicator, blocking or
// `Start...`; handles may be waited for, and `Abort` may be called, from any
// thread at any time. Different communicators are independent of one another.
// Destroying a communicator while a call is in it is a bug of the caller.
//
// Destroying a communicator with started operations under way aborts its job
// (`CANCELLED`); the handles stay valid and have that error.

#ifndef SHOAL_COMM_COMMUNICATOR_H_
#define SHOAL_COMM_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/comm_stats.h"
#include "shoal/comm/pending_operation.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/trace_event.h"

namespace shoal {

namespace internal {
class CallBuilder;
class CallLog;
}  // namespace internal

class Communicator {
 public:
  virtual ~Communicator() = default;

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // In [0, world_size()). Thread-safe.
  virtual int rank() const = 0;
  // At least 1. Thread-safe.
  virtual int world_size() const = 0;
  // OK, or the first error of the job, which every call returns from then on.
  // Thread-safe.
  virtual absl::Status status() const = 0;

  // output[i] = input of rank 0 [i] op input of rank 1 [i] op ... on every
  // rank. Counts and types of the two are equal, and the same on all ranks.
  // In place: input.data == output.data.
  absl::Status AllReduce(ConstBuffer input, Buffer output, ReduceOp op,
                         const CallOptions& options = {});
  // In place.
  absl::Status AllReduce(Buffer buffer, ReduceOp op,
                         const CallOptions& options = {});

  // Several buffers of one type, in place, as a single operation: one message
  // where AllReduce of each would send many, for which they are copied to one
  // place and back. As many buffers, of the same counts, on all ranks. The
  // order of the operands is that of an AllReduce of the buffers laid end to
  // end. `RESOURCE_EXHAUSTED`, with nothing sent, when there is no memory for
  // the copy.
  absl::Status AllReduceCoalesced(absl::Span<const Buffer> buffers, ReduceOp op,
                                  const CallOptions& options = {});

  // Rank r gets part r of the reduced vector: input has world_size() parts of
  // output.count elements each. In place: output is this rank's part of input.
  absl::Status ReduceScatter(ConstBuffer input, Buffer output, ReduceOp op,
                             const CallOptions& options = {});

  // output is the inputs of all ranks, in the order of the ranks: world_size()
  // parts of input.count elements each. In place: input is this rank's part of
  // output.
  absl::Status AllGather(ConstBuffer input, Buffer output,
                         const CallOptions& options = {});

  // The same with parts of any lengths: counts[r] elements come from rank r, in
  // the order of the ranks. `counts` is the same list on all ranks;
  // input.count is counts[rank()], and output.count the sum. In place: input is
  // this rank's part of output.
  absl::Status AllGatherV(ConstBuffer input, Buffer output,
                          absl::Span<const std::int64_t> counts,
                          const CallOptions& options = {});

  // As AllReduce, but only rank `root` gets the result: there counts and types
  // of the two are equal. Other ranks' output is not looked at. In place:
  // input.data == output.data on `root`.
  absl::Status Reduce(ConstBuffer input, Buffer output, ReduceOp op, int root,
                      const CallOptions& options = {});
  // In place on `root`; the other ranks' buffers are left as they are.
  absl::Status Reduce(Buffer buffer, ReduceOp op, int root,
                      const CallOptions& options = {});

  // Rank `root`'s output is the inputs of all ranks, in the order of the ranks:
  // world_size() parts of input.count elements each. Other ranks' output is not
  // looked at. In place: input is this rank's part of output on `root`.
  absl::Status Gather(ConstBuffer input, Buffer output, int root,
                      const CallOptions& options = {});

  // Rank r gets part r of `root`'s input, which is world_size() parts of
  // output.count elements each. Other ranks' input is not looked at. In place:
  // output is this rank's part of input on `root`.
  absl::Status Scatter(ConstBuffer input, Buffer output, int root,
                       const CallOptions& options = {});

  // Part r of output is part rank() of rank r's input; both are world_size()
  // equal parts, of as many elements on all ranks. In place: input.data ==
  // output.data.
  absl::Status AllToAll(ConstBuffer input, Buffer output,
                        const CallOptions& options = {});

  // The same with parts of any lengths, in the order of the ranks:
  // send_counts[r] elements of input go to rank r, where they are
  // recv_counts[rank()] elements of output. input.count and output.count are
  // the sums. Not in place: input and output are disjoint.
  absl::Status AllToAllV(ConstBuffer input,
                         absl::Span<const std::int64_t> send_counts,
                         Buffer output,
                         absl::Span<const std::int64_t> recv_counts,
                         const CallOptions& options = {});

  // The elements of `root`'s buffer replace those of every other rank's.
  absl::Status Broadcast(Buffer buffer, int root,
                         const CallOptions& options = {});

  // `root`'s string replaces every other rank's, whatever its length, by two
  // broadcasts: of the length and of the bytes. Each may take the time-out.
  absl::Status BroadcastString(std::string* bytes, int root,
                               const CallOptions& options = {});

  // Returns once every rank has entered it.
  absl::Status Barrier(const CallOptions& options = {});

  // Sends to rank `to`, which receives with the same tag, count and type.
  // Messages of the same sender, receiver and tag arrive in the order in which
  // they were sent; messages with different tags pass one another. A small
  // message returns when it is on its way; a large one waits until it is
  // received. `tag` is 0 or more; a rank cannot send to itself.
  absl::Status Send(ConstBuffer buffer, int to, int tag = 0,
                    const CallOptions& options = {});

  // Receives from rank `from` the oldest message with this tag. Another count
  // or type than the sender's is `FAILED_PRECONDITION` on both.
  absl::Status Recv(Buffer buffer, int from, int tag = 0,
                    const CallOptions& options = {});

  // Both at once, so that ranks may exchange large messages with each other or
  // along a ring. With `to` and `from` both this rank: a copy. The buffers must
  // not overlap.
  absl::Status SendRecv(ConstBuffer send, int to, Buffer recv, int from,
                        int tag = 0, const CallOptions& options = {});

  // The same, started. The arguments are checked at once, and the first sends
  // are made; nothing waits. After an error of the job its first error is
  // returned in place of a handle. What lists of counts and of buffers lie in
  // is not needed any more afterwards. BroadcastString has no such form: nobody
  // but the root knows the length before it has come.
  absl::StatusOr<PendingOperation> StartAllReduce(
      ConstBuffer input, Buffer output, ReduceOp op,
      const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartAllReduce(
      Buffer buffer, ReduceOp op, const CallOptions& options = {});
  // The result is in `buffers` once `Wait` has returned, or `Test` has returned
  // true, or the handle is destroyed.
  absl::StatusOr<PendingOperation> StartAllReduceCoalesced(
      absl::Span<const Buffer> buffers, ReduceOp op,
      const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartReduceScatter(
      ConstBuffer input, Buffer output, ReduceOp op,
      const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartAllGather(
      ConstBuffer input, Buffer output, const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartAllGatherV(
      ConstBuffer input, Buffer output, absl::Span<const std::int64_t> counts,
      const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartReduce(ConstBuffer input, Buffer output,
                                               ReduceOp op, int root,
                                               const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartReduce(Buffer buffer, ReduceOp op,
                                               int root,
                                               const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartGather(ConstBuffer input, Buffer output,
                                               int root,
                                               const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartScatter(
      ConstBuffer input, Buffer output, int root,
      const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartAllToAll(
      ConstBuffer input, Buffer output, const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartAllToAllV(
      ConstBuffer input, absl::Span<const std::int64_t> send_counts,
      Buffer output, absl::Span<const std::int64_t> recv_counts,
      const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartBroadcast(
      Buffer buffer, int root, const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartBarrier(
      const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartSend(ConstBuffer buffer, int to,
                                             int tag = 0,
                                             const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartRecv(Buffer buffer, int from,
                                             int tag = 0,
                                             const CallOptions& options = {});
  absl::StatusOr<PendingOperation> StartSendRecv(
      ConstBuffer send, int to, Buffer recv, int from, int tag = 0,
      const CallOptions& options = {});

  // Splits the ranks into groups, one for each color, and returns this rank's
  // end of its group's new communicator: the ranks of its color, in the order
  // of their keys, and where these are equal of their ranks. With a negative
  // color the rank is in no group, and gets null.
  //
  // Collective: every rank calls it, at the same place in its order of
  // collectives (it begins with an all-gather). It opens connections between
  // all ranks of a group, and all of it has to end within the time-out.
  //
  // A group's communicator is used, and destroyed, independently of this one:
  // it shares no connection with it, and may be used from another thread and
  // outlive it. It shares the fate of the job: the death of any rank of the
  // world fails it.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(
      int color, int key, const CallOptions& options = {});

  // Closes the communicators of the job on all ranks with `reason`, which must
  // not be OK; operations in progress and all later ones return it. The first
  // error of a job wins, also over a later Abort. Thread-safe.
  void Abort(const absl::Status& reason);

  // What this communicator has done so far; calls that were refused, or have
  // not ended, are not counted, nor is a SendRecv with this rank itself.
  // Thread-safe.
  CommStats stats() const;

  // From now on each call that ends becomes an event of a trace; an earlier
  // trace's events are dropped. After `max_events` events, each of which takes
  // some 200 bytes, the trace is full. GatherTrace (trace.h) brings those of
  // all ranks together. Thread-safe.
  void StartTrace(std::size_t max_events = std::size_t{1} << 20);

  // Ends the trace and returns its events in the order in which the calls
  // ended. Thread-safe.
  std::vector<TraceEvent> TakeTrace();

 protected:
  Communicator() = default;

 private:
  internal::CallBuilder Make() const;
  absl::Status Run(const absl::StatusOr<Call>& call,
                   const CallOptions& options);
  absl::StatusOr<PendingOperation> RunBeside(const absl::StatusOr<Call>& call,
                                             const CallOptions& options);

  // The arguments have been checked. `calls` has one element, or two (a Send
  // and a Recv) that proceed side by side.
  virtual absl::Status Execute(absl::Span<const Call> calls,
                               const CallOptions& options) = 0;
  // The same, without waiting.
  virtual absl::StatusOr<PendingOperation> Start(
      absl::Span<const Call> calls, const CallOptions& options) = 0;
  virtual absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(
      int color, int key, const CallOptions& options) = 0;
  virtual void DoAbort(const absl::Status& reason) = 0;
  // Thread-safe, also what it returns.
  virtual internal::CallLog& log() const = 0;
};

}  // namespace shoal

#endif  // SHOAL_COMM_COMMUNICATOR_H_
