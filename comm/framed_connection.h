// SPDX-License-Identifier: Apache-2.0
//
// A connection that carries frames (frame.h), on an Asio loop.
//
// Frames are read one at a time, on request, and nothing is read beyond them,
// so that between two frames the socket can be handed on to another loop or to
// a link. Frames to be written queue up and leave in order.
//
// Everything runs on the loop's one thread, and so do the handlers. A handler
// is called at most once, never from inside the call that installs it, and
// never after `Close` or `Release`.

#ifndef SHOAL_COMM_FRAMED_CONNECTION_H_
#define SHOAL_COMM_FRAMED_CONNECTION_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"

namespace shoal::internal {

class FramedConnection : public std::enable_shared_from_this<FramedConnection> {
 public:
  // Gets the payload of a frame; or `UNAVAILABLE`, when the connection has
  // ended, with the reason; or an error of FrameReader.
  using FrameHandler = std::function<void(absl::StatusOr<std::string>)>;

  // `socket` is connected. `RESOURCE_EXHAUSTED` when the loop cannot take it.
  static absl::StatusOr<std::shared_ptr<FramedConnection>> Create(
      boost::asio::io_context* loop, GuardedDescriptor socket,
      std::size_t max_payload);
  ~FramedConnection();

  // REQUIRES: no other read is pending.
  void ReadFrame(FrameHandler handler);

  // Withdraws the handler: what arrives from now on stays in the socket. For
  // handing the connection on; no other read may follow.
  // REQUIRES: nothing is queued for writing.
  void CancelRead();

  // Queues a frame. What cannot be written is dropped; the end of the
  // connection shows in `ReadFrame`.
  void Write(absl::string_view payload);

  // Calls `handler` when nothing is queued any more, written or dropped.
  // REQUIRES: no other is pending.
  void OnFlushed(std::function<void()> handler);

  // Shuts down writing once everything queued is written.
  void ShutdownWhenFlushed();

  void Close();

  // Takes the socket back; queued frames are lost. Not in the middle of a
  // frame.
  GuardedDescriptor Release();

  // The peer's address, as it was in the beginning.
  const std::string& peer_name() const { return peer_name_; }
  // For asking for addresses; -1 when closed.
  int descriptor();

 private:
  FramedConnection(boost::asio::ip::tcp::socket socket, std::string peer_name,
                   std::size_t max_payload);

  void ReadSome();
  void OnRead(const boost::system::error_code& error, std::size_t bytes);
  void FinishRead(absl::StatusOr<std::string> result);
  void WriteNext();
  void OnWritten(const boost::system::error_code& error);
  void TellFlushed();

  boost::asio::ip::tcp::socket socket_;
  const std::string peer_name_;
  FrameReader reader_;
  FrameHandler on_frame_;
  std::deque<std::string> unwritten_;  // the first one is being written
  bool shutdown_when_flushed_ = false;
  std::function<void()> on_flushed_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FRAMED_CONNECTION_H_
