// SPDX-License-Identifier: Apache-2.0
//
// The receiver's half of point_to_point.h for one sender: what comes in on the
// link from it, what waits here for its Recv, and what goes back.
//
// States of a Recv (from, to, condition, action):
//   kStarted   kDone       kEager of its tag is read: to the Recv's memory; or
//                          was kept: copy. Owe the sender its credit
//   kStarted   kAnnounced  kAnnounce of its tag is read, or was kept
//   kAnnounced kReady      kReady has been put on its way
//   kReady     kDone       kRendezvous is read, to the Recv's memory
// Credit that is owed goes back as kCredit once it is a quarter of all there
// is: rarely, and before the sender has to do without.
//
// Threads: one at a time.

#ifndef SHOAL_COMM_INCOMING_CHANNEL_H_
#define SHOAL_COMM_INCOMING_CHANNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shoal/comm/call.h"
#include "shoal/comm/fault.h"
#include "shoal/comm/link.h"
#include "shoal/comm/message_header.h"
#include "shoal/comm/point_to_point_operation.h"
#include "shoal/comm/point_to_point_options.h"

namespace shoal::internal {

class IncomingChannel {
 public:
  // `fault` outlives the channel and takes the first fault of all channels.
  IncomingChannel(int rank, int peer, const PointToPointOptions& options,
                  EngineFault* fault);

  void SetLink(Link* link);
  Link* link() const { return link_; }

  // The operation stays with the channel until it is kDone.
  void Start(PointToPointOperation* receive);

  bool CanRead() const { return link_ != nullptr && !read_ended_; }
  // A Recv waits for bytes from here.
  bool AwaitsMessage() const {
    return receiving_ != nullptr || !started_.empty() || !ready_.empty();
  }
  bool WantsWrite() const;

  // Each moves what the link takes or gives; true if anything moved.
  bool Read();
  bool Write();

  std::size_t unexpected_bytes() const {
    return options_.credit_bytes - available_ - owed_ - unpaid_;
  }

  void AppendState(std::string* state) const;

 private:
  // A message, or the announcement of one, that no Recv has asked for.
  struct Unexpected {
    MessageHeader header;
    std::unique_ptr<std::uint8_t[]> payload;
    bool complete = false;
  };

  static constexpr std::size_t kControlBatch = 8;

  // Parts of `Read`.
  void Consume();
  void BeginMessage(const MessageHeader& header);
  void BeginEager(const MessageHeader& header);
  void BeginRendezvous(const MessageHeader& header);
  void TakeAnnouncement(const MessageHeader& header);
  void EndPayload();
  void EndReading();

  // Parts of `Start`.
  void TakeUnexpected(std::list<Unexpected>::iterator unexpected,
                      PointToPointOperation* receive);

  // Takes the oldest started Recv of this tag out of `started_`; null: none.
  PointToPointOperation* TakeStarted(std::int32_t tag);
  void AskFor(PointToPointOperation* receive, std::uint64_t sequence);
  // What the sender called, for error messages.
  Call SenderCall(const MessageHeader& header) const;
  // False, and a fault, if the message is not what `receive` asks for.
  bool CheckMatch(const PointToPointOperation& receive,
                  const MessageHeader& header);
  bool CheckNumbers(const MessageHeader& header);
  void Owe(std::size_t payload_bytes) {
    owed_ += kMessageHeaderSize + payload_bytes;
  }
  void FillControl();

  void RaiseLost(const PointToPointOperation& receive);
  void RaiseCorrupt(absl::string_view why);

  const int rank_;
  const int peer_;
  const PointToPointOptions options_;
  EngineFault* const fault_;
  Link* link_ = nullptr;

  PointToPointList started_;
  PointToPointList announced_;
  PointToPointList ready_;
  std::list<Unexpected> unexpected_;  // in the order of their arrival
  std::size_t unexpected_announcements_ = 0;

  // Credit: what the sender may still send, by what has been told to it; what
  // it will be told; what belongs to the message that a Recv is just reading.
  // The rest is what `unexpected_` holds.
  std::size_t available_;
  std::size_t owed_ = 0;
  std::size_t unpaid_ = 0;

  // Bytes that were read before it was known where they belong: never more than
  // a part of a header, between two calls of `Read`.
  std::unique_ptr<std::uint8_t[]> read_ahead_;
  std::size_t read_ahead_size_ = 0;
  std::uint64_t last_sequence_ = 0;
  bool read_ended_ = false;

  // The message whose payload is coming in, to the memory of `receiving_` or to
  // that of the last element of `unexpected_`.
  bool in_payload_ = false;
  bool payload_is_eager_ = false;
  std::uint8_t* payload_ = nullptr;
  std::size_t payload_bytes_ = 0;
  std::size_t payload_read_ = 0;
  PointToPointOperation* receiving_ = nullptr;

  // Headers on their way back.
  std::array<std::uint8_t, kControlBatch * kMessageHeaderSize> control_;
  std::size_t control_size_ = 0;
  std::size_t control_written_ = 0;
  PointToPointOperation* control_request_ = nullptr;  // one of them asks for it
  bool write_ended_ = false;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_INCOMING_CHANNEL_H_
