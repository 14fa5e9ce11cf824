// SPDX-License-Identifier: Apache-2.0
//
// A world of point-to-point state machines in one thread, for tests: links in
// memory whose every read and write can be cut short, ranks that die, and a
// driver that parks as a real one does, so that a wake-up that is lost shows.

#ifndef SHOAL_COMM_POINT_TO_POINT_SIMULATOR_H_
#define SHOAL_COMM_POINT_TO_POINT_SIMULATOR_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_options.h"

namespace shoal::internal {

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// One direction of a link.
struct SimulatedPipe {
  std::string bytes;
  std::size_t capacity = kNoLimit;
  bool finished = false;   // nothing more will be written
  bool abandoned = false;  // nothing more will be read
};

class SimulatedLink : public Link {
 public:
  // Each call moves at most `*limit` bytes. All three outlive the link.
  SimulatedLink(SimulatedPipe* in, SimulatedPipe* out, const std::size_t* limit)
      : in_(in), out_(out), limit_(limit) {}

  LinkResult TryWrite(absl::Span<const struct iovec> pieces) override;
  LinkResult TryRead(absl::Span<const struct iovec> pieces) override;
  void ShutdownWrite() override { out_->finished = true; }
  int descriptor() const override { return -1; }
  std::string end_reason() const override { return reason_; }

  // What poll(2) would say.
  bool IsReadable() const { return !in_->bytes.empty() || in_->finished; }
  bool IsWritable() const {
    return out_->bytes.size() < out_->capacity || out_->abandoned;
  }

  // Ends both directions, for both ends; what was written can still be read.
  void End(const std::string& reason);

  int writes() const { return writes_; }
  int reads() const { return reads_; }

 private:
  SimulatedPipe* const in_;
  SimulatedPipe* const out_;
  const std::size_t* const limit_;
  std::string reason_;
  int writes_ = 0;
  int reads_ = 0;
};

class PointToPointWorld {
 public:
  // `capacity`: of each direction of each link.
  PointToPointWorld(int size, const PointToPointOptions& options,
                    std::size_t capacity = kNoLimit);

  int size() const { return static_cast<int>(machines_.size()); }
  PointToPoint& rank(int rank) { return *machines_[rank]; }

  // Opens the link if it is not open yet; the receiver is not told.
  void Open(int from, int to);
  // Tells the receiver of a link that is open; false if there is none, or it
  // knows.
  bool Deliver(int from, int to);
  // Both.
  void Connect(int from, int to);
  // Opens every link that is asked for.
  void OpenWanted();

  // The sender's and the receiver's end of an open link.
  SimulatedLink& sender_end(int from, int to) { return *At(from, to).sender; }
  SimulatedLink& receiver_end(int from, int to) {
    return *At(from, to).receiver;
  }
  bool IsOpen(int from, int to) { return At(from, to).sender != nullptr; }
  bool IsDelivered(int from, int to) { return At(from, to).delivered; }
  SimulatedPipe& data(int from, int to) { return At(from, to).data; }
  SimulatedPipe& back(int from, int to) { return At(from, to).back; }

  // The most that a read or a write moves from now on.
  void SetLimit(std::size_t limit) { limit_ = limit; }

  // The rank's process ends: all its links do, and it does nothing more.
  void Kill(int rank);
  bool is_dead(int rank) const { return dead_[rank]; }

  // Drives all machines as their drivers would, each only when a link that it
  // is interested in is ready, until nothing is ready. Returns what went wrong:
  // a machine that asks for what it does not take, or one that has no end;
  // empty if nothing did.
  std::string RunUntilParked();

  // The state of all machines and links, for merging.
  std::string State() const;

 private:
  struct Pair {
    SimulatedPipe data;
    SimulatedPipe back;
    std::unique_ptr<SimulatedLink> sender;
    std::unique_ptr<SimulatedLink> receiver;
    bool delivered = false;
  };

  Pair& At(int from, int to) { return *pairs_[from * size() + to]; }
  std::vector<LinkInterest> ReadyInterest(int rank) const;

  std::size_t limit_ = kNoLimit;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::vector<std::unique_ptr<PointToPoint>> machines_;
  std::vector<bool> dead_;
};

// A call's arguments with memory of its own.
struct TestMessage {
  TestMessage(int peer, int tag, std::int64_t count, DType dtype, int seed);

  Call SendCall() const;
  Call RecvCall();
  // That `received` has what this one sent.
  bool Equals(const TestMessage& received) const {
    return memory == received.memory;
  }

  int peer;
  int tag;
  std::int64_t count;
  DType dtype;
  std::vector<std::uint8_t> memory;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_POINT_TO_POINT_SIMULATOR_H_
