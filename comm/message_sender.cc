// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/message_sender.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/operation.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

// Elements; whole units, few enough to be in cache when they are written.
constexpr std::int64_t kEncodedAtOnce = 16 * 1024;

}  // namespace

MessageHeader HeaderOf(const Operation& operation, const QueuedStep& queued,
                       int sender) {
  MessageHeader header;
  header.kind = MessageKind::kCollective;
  header.signature = operation.schedule().signature;
  header.sequence = operation.id();
  header.offset = queued.ordinal;
  header.payload_bytes = operation.payload_bytes(queued.step);
  header.sender = sender;
  return header;
}

std::int64_t MessageSender::Available(const OperationTable& operations) const {
  const QueuedStep& queued = queue_.front();
  const Operation& operation = operations.at(queued.slot);
  const std::int64_t allowed = operation.Allowed(queued.step);
  // The header waits for the first element, so that both go in one write.
  if (allowed < 0) return -1;
  if (allowed == 0 && operation.step(queued.step).target.count > 0) return -1;
  return static_cast<std::int64_t>(operation.encoding().Bytes(allowed));
}

struct iovec MessageSender::NextPayload(Operation* operation,
                                        std::size_t available,
                                        std::size_t limit) {
  const int step = queue_.front().step;
  if (operation->encoding().IsAsTheyAre()) {
    return {operation->Target(step) + payload_sent_,
            std::min(available - payload_sent_, limit)};
  }
  if (encoded_sent_ == encoded_.size() && available > payload_sent_) {
    const std::int64_t count = std::min(
        operation->Allowed(step) - operation->processed(step), kEncodedAtOnce);
    encoded_.resize(operation->encoding().Bytes(count));
    encoded_sent_ = 0;
    operation->Encode(step, count, encoded_.data());
  }
  return {encoded_.data() + encoded_sent_, encoded_.size() - encoded_sent_};
}

bool MessageSender::Wants(const OperationTable& operations) const {
  if (queue_.empty()) return false;
  const std::int64_t available = Available(operations);
  return available >= 0 &&
         (header_sent_ < kMessageHeaderSize ||
          static_cast<std::size_t>(available) > payload_sent_);
}

bool MessageSender::Write(Link* link, std::size_t limit,
                          OperationTable* operations, EngineFault* fault) {
  if (queue_.empty()) return false;
  const QueuedStep queued = queue_.front();
  Operation& operation = operations->at(queued.slot);
  const std::int64_t available = Available(*operations);
  if (available < 0) return false;
  struct iovec pieces[2];
  std::size_t used = 0;
  const std::size_t header_left = kMessageHeaderSize - header_sent_;
  if (header_left > 0) {
    if (header_sent_ == 0) {
      EncodeMessageHeader(HeaderOf(operation, queued, rank_),
                          absl::MakeSpan(header_));
    }
    pieces[used++] = {header_.data() + header_sent_, header_left};
  }
  const struct iovec payload =
      NextPayload(&operation, static_cast<std::size_t>(available), limit);
  if (payload.iov_len > 0) pieces[used++] = payload;
  if (used == 0) return false;

  const LinkResult result =
      link->TryWrite(absl::Span<const struct iovec>(pieces, used));
  if (result.state == LinkState::kEnded) {
    *fault = PeerLost(rank_, peer_, operation.ToString(), link->end_reason());
    return true;
  }
  const std::size_t of_header = std::min(result.bytes, header_left);
  header_sent_ += of_header;
  payload_sent_ += result.bytes - of_header;
  if (operation.encoding().IsAsTheyAre()) {
    operation.SetProcessed(queued.step,
                           payload_sent_ / operation.element_size());
  } else {
    encoded_sent_ += result.bytes - of_header;
  }
  if (header_sent_ == kMessageHeaderSize &&
      payload_sent_ == operation.payload_bytes(queued.step)) {
    header_sent_ = 0;
    payload_sent_ = 0;
    queue_.PopFront();
    operations->CompleteStep(queued.slot, queued.step);
  }
  return result.bytes > 0;
}

void MessageSender::AppendState(std::string* state) const {
  absl::StrAppend(state, "s", queue_.size(), ",", header_sent_, ",",
                  payload_sent_, ",");
  state->append(encoded_.data() + encoded_sent_,
                encoded_.size() - encoded_sent_);
  absl::StrAppend(state, ";");
}

}  // namespace shoal::internal
