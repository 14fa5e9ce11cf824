// SPDX-License-Identifier: Apache-2.0
//
// One link's incoming half: the receive steps that are to come in on it, in
// order, and how far the first of them has come.
//
// The header and what follows are read together, but never more than the
// current message. What is to be copied as it is, is read straight to its
// place; what is to be reduced or decoded goes through a staging buffer of one
// slice, which is processed as soon as the dependencies of the step allow.
// Nothing is reduced, and no step completes, before the message's header has
// been held against this rank's own call.
//
// Not thread-safe.

#ifndef SHOAL_COMM_MESSAGE_RECEIVER_H_
#define SHOAL_COMM_MESSAGE_RECEIVER_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/message_sender.h"
#include "shoal/comm/operation.h"
#include "shoal/comm/ring_queue.h"

namespace shoal::internal {

class MessageReceiver {
 public:
  MessageReceiver(int rank, int peer, std::size_t slice_bytes)
      : rank_(rank), peer_(peer), slice_bytes_(slice_bytes) {}

  void Push(const QueuedStep& step) { queue_.PushBack(step); }
  bool empty() const { return queue_.empty(); }
  // REQUIRES: not empty.
  const QueuedStep& front() const { return queue_.front(); }

  // Whether there is room for more bytes now, were the link to give any.
  bool Wants(const OperationTable& operations) const;

  // Reads once, at most about `limit` bytes, and processes what has come. True
  // if anything moved. A link that has ended is a fault if a step waits for
  // it, and so is a message that does not fit.
  bool Read(Link* link, std::size_t limit, OperationTable* operations,
            EngineFault* fault);

  // Whether there is a header to be read of a message for which no operation
  // waits yet.
  bool WantsHeaderAhead() const {
    return queue_.empty() && header_read_ < kMessageHeaderSize;
  }

  // Reads such a header, and no payload. For a link on which this rank is
  // stuck in sending `sending`, a call: a peer that sends another message of
  // the same operation, or of an earlier one, instead of receiving is a fault,
  // and so is the end of the link.
  bool ReadHeaderAhead(Link* link, const OperationTable& operations,
                       const Operation& sending, EngineFault* fault);

  // Drops what is queued.
  void Clear() { queue_.Clear(); }

  void AppendState(std::string* state) const;

 private:
  // Where the next bytes of payload go; empty when there is no room.
  struct iovec Room(OperationTable* operations, std::size_t limit);
  std::size_t RoomBytes(const OperationTable& operations) const;

  // Processes what has been read, as far as dependencies allow.
  bool Process(OperationTable* operations, EngineFault* fault);
  bool CheckHeader(const OperationTable& operations, EngineFault* fault);
  bool ProcessStaged(OperationTable* operations);
  void CompleteMessage(OperationTable* operations);

  int rank_;
  int peer_;
  std::size_t slice_bytes_;
  RingQueue<QueuedStep> queue_;
  // Of the first in the queue, or of one that no operation waits for yet.
  std::array<std::uint8_t, kMessageHeaderSize> header_ = {};
  std::size_t header_read_ = 0;
  bool header_checked_ = false;
  std::size_t payload_read_ = 0;
  // Bytes [staged_begin_, staged_end_) have been read and not processed.
  std::vector<char> staging_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_MESSAGE_RECEIVER_H_
