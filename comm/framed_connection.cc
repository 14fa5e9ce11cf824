// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/framed_connection.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/tcp_address.h"

namespace shoal::internal {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

absl::StatusOr<std::shared_ptr<FramedConnection>> FramedConnection::Create(
    asio::io_context* loop, GuardedDescriptor socket, std::size_t max_payload) {
  SHOAL_ASSIGN_OR_RETURN(const SocketAddress peer, PeerAddress(socket.get()));
  asio::ip::tcp::socket asio_socket(*loop);
  ErrorCode error;
  asio_socket.assign(
      peer.family() == AF_INET ? asio::ip::tcp::v4() : asio::ip::tcp::v6(),
      socket.get(), error);
  if (error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch the connection to ", peer.ToString(), ": ",
                     error.message()));
  }
  static_cast<void>(socket.Lend());
  return std::shared_ptr<FramedConnection>(new FramedConnection(
      std::move(asio_socket), peer.ToString(), max_payload));
}

FramedConnection::FramedConnection(asio::ip::tcp::socket socket,
                                   std::string peer_name,
                                   std::size_t max_payload)
    : socket_(std::move(socket)),
      peer_name_(std::move(peer_name)),
      reader_(max_payload) {}

FramedConnection::~FramedConnection() { Close(); }

void FramedConnection::ReadFrame(FrameHandler handler) {
  on_frame_ = std::move(handler);
  ReadSome();
}

void FramedConnection::ReadSome() {
  const absl::Span<char> wanted = reader_.Wanted();
  socket_.async_read_some(
      asio::buffer(wanted.data(), wanted.size()),
      [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
        self->OnRead(error, bytes);
      });
}

void FramedConnection::OnRead(const ErrorCode& error, std::size_t bytes) {
  if (!socket_.is_open() || !on_frame_) return;
  if (error == asio::error::interrupted) return ReadSome();
  if (error) {
    return FinishRead(absl::UnavailableError(error == asio::error::eof
                                                 ? "it closed the connection"
                                                 : error.message()));
  }
  const absl::StatusOr<bool> complete = reader_.Filled(bytes);
  if (!complete.ok()) return FinishRead(complete.status());
  if (!*complete) return ReadSome();
  FinishRead(reader_.TakePayload());
}

void FramedConnection::FinishRead(absl::StatusOr<std::string> result) {
  // The handler may install the next one, or close the connection.
  FrameHandler handler = std::exchange(on_frame_, nullptr);
  if (handler) handler(std::move(result));
}

void FramedConnection::CancelRead() {
  on_frame_ = nullptr;
  ErrorCode ignored;
  socket_.cancel(ignored);
}

void FramedConnection::Write(absl::string_view payload) {
  if (!socket_.is_open()) return;
  unwritten_.push_back(EncodeFrame(payload));
  if (unwritten_.size() == 1) WriteNext();
}

void FramedConnection::WriteNext() {
  asio::async_write(
      socket_, asio::buffer(unwritten_.front()),
      [self = shared_from_this()](const ErrorCode& error, std::size_t) {
        self->OnWritten(error);
      });
}

void FramedConnection::OnWritten(const ErrorCode& error) {
  if (!socket_.is_open()) return;
  if (error) {
    unwritten_.clear();
  } else {
    unwritten_.pop_front();
  }
  if (!unwritten_.empty()) return WriteNext();
  if (shutdown_when_flushed_) ShutdownWhenFlushed();
  TellFlushed();
}

void FramedConnection::TellFlushed() {
  std::function<void()> handler = std::exchange(on_flushed_, nullptr);
  if (handler) handler();
}

void FramedConnection::OnFlushed(std::function<void()> handler) {
  on_flushed_ = std::move(handler);
  if (!unwritten_.empty()) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->socket_.is_open() && self->unwritten_.empty()) {
      self->TellFlushed();
    }
  });
}

void FramedConnection::ShutdownWhenFlushed() {
  shutdown_when_flushed_ = true;
  if (!unwritten_.empty() || !socket_.is_open()) return;
  ErrorCode ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

void FramedConnection::Close() { Release().Close(); }

GuardedDescriptor FramedConnection::Release() {
  on_frame_ = nullptr;
  on_flushed_ = nullptr;
  if (!socket_.is_open()) return GuardedDescriptor();
  ErrorCode error;
  const int descriptor = socket_.release(error);
  unwritten_.clear();  // not before: Asio was writing from it
  return GuardedDescriptor::Reclaim(descriptor);
}

int FramedConnection::descriptor() {
  return socket_.is_open() ? socket_.native_handle() : -1;
}

}  // namespace shoal::internal
