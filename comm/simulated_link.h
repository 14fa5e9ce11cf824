// SPDX-License-Identifier: Apache-2.0
//
// A link for simulation: nothing moves, and no end shows, but what the
// simulation permits, byte by byte.
//
// A `SimulatedPipe` is one direction between two ranks, as a value, so that a
// whole world can be copied and gone back to. It follows the messages that pass
// through it (by the length in their headers), so that a permit can end with a
// message.
//
// Not thread-safe.

#ifndef SHOAL_COMM_SIMULATED_LINK_H_
#define SHOAL_COMM_SIMULATED_LINK_H_

#include <sys/uio.h>

#include <cstddef>
#include <string>

#include "absl/types/span.h"
#include "shoal/comm/link.h"

namespace shoal::internal {

// Where in a message a stream of messages is.
class MessageFrame {
 public:
  // Bytes of the current message that have passed: of the header, then of the
  // payload.
  std::size_t offset() const { return offset_; }

  // How many more bytes of the current message there are at least: to the end
  // of the header while that is on its way, else to the end of the payload.
  std::size_t BytesToBoundary() const;

  // `bytes` of the current message pass, at most `BytesToBoundary`. True if
  // that ends the message.
  bool Pass(const char* bytes, std::size_t size);

 private:
  std::size_t offset_ = 0;
  std::size_t size_ = 0;  // known when the header has passed
  std::string header_;
};

// What may move in one direction before the simulation is asked again.
struct Permit {
  std::size_t bytes = 0;
  // Nothing of a second message.
  bool within_message = false;
  // The end of the direction may show.
  bool end = false;
};

struct SimulatedPipe {
  std::size_t capacity = 0;
  std::string in_flight;  // written, not read
  // The writer has gone: an end follows `in_flight`.
  bool finished = false;
  // The reader has gone: writes end.
  bool broken = false;

  MessageFrame write_frame;
  MessageFrame read_frame;
  Permit may_write;
  Permit may_read;

  std::size_t room() const {
    return in_flight.size() < capacity ? capacity - in_flight.size() : 0;
  }

  void AppendState(std::string* state) const;
};

// One rank's end of two pipes. These are looked up anew in each call, since a
// copy of the world has its own.
class SimulatedLink : public Link {
 public:
  // `pipes` is the array in force, which may change; the two indices are those
  // of the pipe that this end writes to, and of the one that it reads from.
  SimulatedLink(SimulatedPipe* const* pipes, int outgoing, int incoming)
      : pipes_(pipes), outgoing_(outgoing), incoming_(incoming) {}

  LinkResult TryWrite(absl::Span<const struct iovec> pieces) override;
  LinkResult TryRead(absl::Span<const struct iovec> pieces) override;
  void ShutdownWrite() override { (*pipes_)[outgoing_].finished = true; }
  int descriptor() const override { return -1; }
  std::string end_reason() const override { return ""; }

 private:
  SimulatedPipe* const* const pipes_;
  const int outgoing_;
  const int incoming_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SIMULATED_LINK_H_
