// SPDX-License-Identifier: Apache-2.0
//
// One link's outgoing half: the send steps that are to go out on it, in order,
// and how far the first of them has come.
//
// Not thread-safe.

#ifndef SHOAL_COMM_MESSAGE_SENDER_H_
#define SHOAL_COMM_MESSAGE_SENDER_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/operation.h"
#include "shoal/comm/ring_queue.h"

namespace shoal::internal {

// A step that waits for its turn on a link.
struct QueuedStep {
  std::uint32_t slot = 0;  // in the OperationTable
  std::int32_t step = 0;
  // Which message of its operation it is on this link, from 0.
  std::uint32_t ordinal = 0;
};

// The header of the message that is, or is to be, sent by `sender` for a send
// or a receive step of this rank's.
MessageHeader HeaderOf(const Operation& operation, const QueuedStep& queued,
                       int sender);

class MessageSender {
 public:
  MessageSender(int rank, int peer) : rank_(rank), peer_(peer) {}

  void Push(const QueuedStep& step) { queue_.PushBack(step); }
  bool empty() const { return queue_.empty(); }
  // REQUIRES: not empty.
  const QueuedStep& front() const { return queue_.front(); }

  // Whether there is something to write now, were the link to take it.
  bool Wants(const OperationTable& operations) const;

  // Writes once, header and payload together, of the first message only, and
  // at most about `limit` bytes. True if anything moved. A link that has ended
  // is a fault.
  bool Write(Link* link, std::size_t limit, OperationTable* operations,
             EngineFault* fault);

  // Drops what is queued.
  void Clear() { queue_.Clear(); }

  void AppendState(std::string* state) const;

 private:
  // Bytes of payload that may be on their way by now; -1: not even the header.
  std::int64_t Available(const OperationTable& operations) const;

  // The next bytes of payload, at most about `limit`, if `available` are all
  // there are.
  struct iovec NextPayload(Operation* operation, std::size_t available,
                           std::size_t limit);

  int rank_;
  int peer_;
  RingQueue<QueuedStep> queue_;
  // Of the first in the queue.
  std::array<std::uint8_t, kMessageHeaderSize> header_ = {};
  std::size_t header_sent_ = 0;
  std::size_t payload_sent_ = 0;
  // Bytes [encoded_sent_, encoded_.size()) have been encoded and not sent;
  // unused where elements are sent as they are.
  std::vector<char> encoded_;
  std::size_t encoded_sent_ = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_MESSAGE_SENDER_H_
