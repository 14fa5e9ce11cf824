// SPDX-License-Identifier: Apache-2.0
//
// The sender's half of point_to_point.h for one receiver: what goes out on the
// link to it, and what comes back.
//
// States of a Send (from, to, condition, action):
//   kStarted   kDone       small, and credit is left: write kEager + payload
//   kStarted   kAnnounced  otherwise: write kAnnounce
//   kAnnounced kReady      kReady is read
//   kReady     kDone       write kRendezvous + payload
// Started sends go out in their order, so that the receiver sees each tag's
// messages in order. The order among those asked for does not matter; they give
// way to started ones, which are short.
//
// Threads: one at a time.

#ifndef SHOAL_COMM_OUTGOING_CHANNEL_H_
#define SHOAL_COMM_OUTGOING_CHANNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point_operation.h"
#include "shoal/comm/point_to_point_options.h"

namespace shoal::internal {

class OutgoingChannel {
 public:
  // `fault` outlives the channel and takes the first fault of all channels.
  OutgoingChannel(int rank, int peer, const PointToPointOptions& options,
                  EngineFault* fault);

  void SetLink(Link* link) { link_ = link; }
  Link* link() const { return link_; }

  // The operation stays with the channel until it is kDone.
  void Start(PointToPointOperation* send);

  // Something has to go out, but there is no link yet.
  bool NeedsLink() const { return link_ == nullptr && HasSomethingToWrite(); }
  bool WantsWrite() const { return link_ != nullptr && HasSomethingToWrite(); }
  // A request for an announced message has to come before a Send can go on.
  bool AwaitsRequest() const { return link_ != nullptr && !announced_.empty(); }
  // Reading may find something of use: a request, or credit where it gets low.
  bool WantsRead() const {
    return link_ != nullptr && !read_ended_ &&
           (!announced_.empty() || credit_ < options_.credit_bytes / 2);
  }

  // Each moves what the link takes or gives; true if anything moved.
  bool Write();
  bool Read();

  void AppendState(std::string* state) const;

 private:
  static constexpr std::size_t kReadAhead = 8 * kMessageHeaderSize;

  bool HasSomethingToWrite() const;
  // Makes the next message `writing_`; false if none may go now.
  bool BeginMessage();
  void EndMessage();
  void TakeHeader(const MessageHeader& header);
  void TakeRequest(const MessageHeader& header);
  void RaiseLost(const PointToPointOperation& send);
  void RaiseCorrupt(const absl::Status& status);

  const int rank_;
  const int peer_;
  const PointToPointOptions options_;
  EngineFault* const fault_;
  Link* link_ = nullptr;

  PointToPointList started_;
  PointToPointList announced_;
  PointToPointList ready_;
  std::size_t credit_;
  std::uint64_t last_sequence_ = 0;

  // The message that is going out, in none of the lists; null: none. It has
  // gone once header and `writing_payload_` bytes have.
  PointToPointOperation* writing_ = nullptr;
  MessageKind writing_kind_ = MessageKind::kEager;
  std::size_t writing_payload_ = 0;
  std::size_t written_ = 0;
  std::array<std::uint8_t, kMessageHeaderSize> header_;

  std::array<std::uint8_t, kReadAhead> read_ahead_;
  std::size_t read_ahead_size_ = 0;
  bool read_ended_ = false;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_OUTGOING_CHANNEL_H_
