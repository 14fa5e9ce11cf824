// SPDX-License-Identifier: Apache-2.0
//
// An engine whose peers are played by the test, step by step and byte by byte.

#ifndef SHOAL_COMM_ENGINE_TEST_SUPPORT_H_
#define SHOAL_COMM_ENGINE_TEST_SUPPORT_H_

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// A link whose other side is the test.
class FakeLink : public Link {
 public:
  LinkResult TryWrite(absl::Span<const struct iovec> pieces) override {
    ++writes;
    if (write_ended) return {LinkState::kEnded, 0};
    std::size_t moved = 0;
    for (const struct iovec& piece : pieces) {
      const std::size_t size = std::min(piece.iov_len, write_room - moved);
      written.append(static_cast<const char*>(piece.iov_base), size);
      moved += size;
    }
    if (write_room != kNoLimit) write_room -= moved;
    return {moved > 0 ? LinkState::kOk : LinkState::kWouldBlock, moved};
  }

  LinkResult TryRead(absl::Span<const struct iovec> pieces) override {
    ++reads;
    std::size_t moved = 0;
    for (const struct iovec& piece : pieces) {
      asked += piece.iov_len;
      const std::size_t size = std::min(piece.iov_len, to_read.size() - moved);
      std::memcpy(piece.iov_base, to_read.data() + moved, size);
      moved += size;
    }
    to_read.erase(0, moved);
    if (moved > 0) return {LinkState::kOk, moved};
    return {read_ended ? LinkState::kEnded : LinkState::kWouldBlock, 0};
  }

  void ShutdownWrite() override {}
  int descriptor() const override { return -1; }
  std::string end_reason() const override { return reason; }

  std::string written;
  std::string to_read;
  std::size_t write_room = kNoLimit;
  bool write_ended = false;
  bool read_ended = false;
  std::string reason;
  int writes = 0;
  int reads = 0;
  std::size_t asked = 0;  // bytes, in all reads
};

inline BufferRange Output(std::int64_t begin, std::int64_t count) {
  return {BufferId::kOutput, begin, count};
}

inline BufferRange Input(std::int64_t begin, std::int64_t count) {
  return {BufferId::kInput, begin, count};
}

inline Step MakeStep(StepKind kind, int peer, BufferRange target,
                     BufferRange source) {
  Step step;
  step.kind = kind;
  step.peer = peer;
  step.target = target;
  step.source = source;
  return step;
}

inline Step Send(int peer, BufferRange range) {
  return MakeStep(StepKind::kSend, peer, range, {});
}

inline Step Receive(int peer, BufferRange range) {
  return MakeStep(StepKind::kReceive, peer, range, {});
}

inline Step ReceiveReduce(int peer, BufferRange target, BufferRange source) {
  return MakeStep(StepKind::kReceiveReduce, peer, target, source);
}

inline Step Copy(BufferRange target, BufferRange source) {
  return MakeStep(StepKind::kCopy, -1, target, source);
}

inline Step After(int index, Step step) {
  step.after = index;
  return step;
}

inline CallSignature SumOf(std::int64_t count) {
  return {.kind = CallKind::kAllReduce,
          .dtype = DType::kI32,
          .algorithm = Algorithm::kRecursiveDoubling,
          .count = count};
}

inline std::string Bytes(const std::vector<std::int32_t>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     4 * values.size());
}

inline std::string Header(const MessageHeader& header) {
  std::uint8_t bytes[kMessageHeaderSize];
  EncodeMessageHeader(header, bytes);
  return std::string(reinterpret_cast<const char*>(bytes), sizeof(bytes));
}

// An engine of rank 1 with the test as all of its peers.
class EngineTest : public testing::Test {
 protected:
  static constexpr int kRank = 1;

  explicit EngineTest(int world_size = 3, std::size_t slice_bytes = 16)
      : world_size_(world_size), peers_(world_size) {
    std::vector<Link*> links;
    for (int i = 0; i < world_size; ++i) {
      links.push_back(i == kRank ? nullptr : &peers_[i]);
    }
    engine_ = std::make_unique<Engine>(
        kRank, world_size, links, EngineOptions{.slice_bytes = slice_bytes});
  }

  Engine::OperationId Start(const CallSignature& signature,
                            std::vector<Step> steps, const void* input,
                            void* output) {
    auto schedule = std::make_shared<Schedule>();
    schedule->signature = signature;
    schedule->rank = kRank;
    schedule->world_size = world_size_;
    schedule->steps = std::move(steps);
    FinishSchedule(schedule.get());
    return engine_->Start(
        schedule, {.signature = signature, .input = input, .output = output});
  }

  // What `sender` would send as its `ordinal`th message to this rank.
  static std::string Message(int sender, const CallSignature& signature,
                             std::uint64_t sequence, int ordinal,
                             const std::vector<std::int32_t>& payload) {
    MessageHeader header;
    header.signature = signature;
    header.sequence = sequence;
    header.offset = ordinal;
    header.payload_bytes = 4 * payload.size();
    header.sender = sender;
    return Header(header) + Bytes(payload);
  }

  int world_size_;
  std::vector<FakeLink> peers_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ENGINE_TEST_SUPPORT_H_
