// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/hello_acceptor.h"

#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/framed_connection.h"
#include "shoal/comm/loop_timer.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Clock = std::chrono::steady_clock;

// Other work on the loop gets its turn in a storm of connections.
constexpr int kAcceptsInARow = 64;
// Without descriptors, accepting again at once would fail again at once.
constexpr std::chrono::milliseconds kPauseWithoutDescriptors(50);
constexpr int kMaxLines = 100;

}  // namespace

absl::StatusOr<std::shared_ptr<HelloAcceptor>> HelloAcceptor::Start(
    asio::io_context* loop, GuardedDescriptor listener,
    HelloAcceptorOptions options, HelloHandler handler) {
  SHOAL_ASSIGN_OR_RETURN(const SocketAddress local,
                         LocalAddress(listener.get()));
  asio::ip::tcp::acceptor acceptor(*loop);
  ErrorCode error;
  acceptor.assign(
      local.family() == AF_INET ? asio::ip::tcp::v4() : asio::ip::tcp::v6(),
      listener.get(), error);
  if (error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch the listener at ", local.ToString(), ": ",
                     error.message()));
  }
  static_cast<void>(listener.Lend());
  std::shared_ptr<HelloAcceptor> result(new HelloAcceptor(
      loop, std::move(acceptor), std::move(options), std::move(handler)));
  result->AwaitConnection();
  return result;
}

HelloAcceptor::HelloAcceptor(asio::io_context* loop,
                             asio::ip::tcp::acceptor listener,
                             HelloAcceptorOptions options, HelloHandler handler)
    : loop_(loop),
      listener_(std::move(listener)),
      deadline_timer_(*loop),
      pause_timer_(*loop),
      options_(std::move(options)),
      handler_(std::move(handler)) {}

void HelloAcceptor::AwaitConnection() {
  listener_.async_wait(asio::ip::tcp::acceptor::wait_read,
                       [self = shared_from_this()](const ErrorCode& error) {
                         if (!self->listener_.is_open()) return;
                         if (error) return self->AcceptAfterPause();
                         self->AcceptWaiting();
                       });
}

void HelloAcceptor::AcceptWaiting() {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    absl::StatusOr<GuardedDescriptor> socket =
        AcceptFrom(listener_.native_handle());
    if (absl::IsResourceExhausted(socket.status())) {
      Log(socket.status().message());
      return AcceptAfterPause();
    }
    // Nobody is waiting, or one went away while it was.
    if (!socket.ok()) break;
    Greet(*std::move(socket));
    if (!listener_.is_open()) return;
  }
  AwaitConnection();
}

void HelloAcceptor::AcceptAfterPause() {
  pause_timer_.expires_after(kPauseWithoutDescriptors);
  pause_timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error && self->listener_.is_open()) self->AcceptWaiting();
  });
}

void HelloAcceptor::Greet(GuardedDescriptor socket) {
  absl::StatusOr<std::shared_ptr<FramedConnection>> connection =
      FramedConnection::Create(loop_, std::move(socket), kMaxStrangerPayload);
  if (!connection.ok()) return Log(connection.status().message());
  const StrangerPosition position = AddStranger(*connection);
  (*connection)
      ->ReadFrame([self = shared_from_this(),
                   position](absl::StatusOr<std::string> payload) {
        self->OnFrame(position, std::move(payload));
      });
  if (strangers_.size() > options_.max_silent_connections) {
    Drop(strangers_.begin(), "too many connections say nothing");
  }
}

HelloAcceptor::StrangerPosition HelloAcceptor::AddStranger(
    std::shared_ptr<FramedConnection> connection) {
  strangers_.push_back({std::move(connection),
                        Clock::now() + TimerDuration(options_.hello_timeout)});
  if (strangers_.size() == 1) AwaitDeadline();
  return std::prev(strangers_.end());
}

void HelloAcceptor::OnFrame(StrangerPosition position,
                            absl::StatusOr<std::string> payload) {
  const std::shared_ptr<FramedConnection> connection = position->connection;
  // A connection that was refused only has its end to tell.
  if (position->refused) {
    connection->Close();
    strangers_.erase(position);
    return;
  }
  absl::StatusOr<comm::BootstrapMessage> message =
      payload.ok() ? DecodeBootstrap(*payload)
                   : absl::StatusOr<comm::BootstrapMessage>(payload.status());
  if (message.ok()) {
    strangers_.erase(position);
    const HelloHandler handler = handler_;  // it may call Stop
    return handler(*std::move(message), connection);
  }
  // Another release of Shoal can at least read the version of the answer.
  if (absl::IsFailedPrecondition(message.status())) {
    strangers_.erase(position);
    return Refuse(connection, message.status());
  }
  Drop(position, message.status().message());
}

void HelloAcceptor::Refuse(std::shared_ptr<FramedConnection> connection,
                           const absl::Status& reason) {
  Log(absl::StrCat("turned away a connection from ", connection->peer_name(),
                   ": ", reason.message()));
  connection->Write(EncodeFailure(reason));
  connection->ShutdownWhenFlushed();
  FramedConnection* const reading = connection.get();
  const StrangerPosition position = AddStranger(std::move(connection));
  position->refused = true;
  reading->ReadFrame([self = shared_from_this(),
                      position](absl::StatusOr<std::string> payload) {
    self->OnFrame(position, std::move(payload));
  });
}

void HelloAcceptor::AwaitDeadline() {
  if (strangers_.empty()) return;
  deadline_timer_.expires_at(strangers_.front().deadline);
  deadline_timer_.async_wait(
      [self = shared_from_this()](const ErrorCode& error) {
        if (!error) self->DropLateOnes();
      });
}

void HelloAcceptor::DropLateOnes() {
  const Clock::time_point now = Clock::now();
  while (!strangers_.empty() && strangers_.front().deadline <= now) {
    Drop(strangers_.begin(), "it has not said who it is in time");
  }
  AwaitDeadline();
}

void HelloAcceptor::Drop(StrangerPosition position, absl::string_view reason) {
  if (!position->refused) {
    Log(absl::StrCat("dropped a connection from ",
                     position->connection->peer_name(), ": ", reason));
  }
  position->connection->Close();
  strangers_.erase(position);
}

void HelloAcceptor::Log(absl::string_view line) {
  if (lines_logged_ >= kMaxLines) return;
  ++lines_logged_;
  options_.log(line);
  if (lines_logged_ == kMaxLines) {
    options_.log("further strangers are dropped without a line");
  }
}

GuardedDescriptor HelloAcceptor::Stop() {
  handler_ = nullptr;
  deadline_timer_.cancel();
  pause_timer_.cancel();
  for (const Stranger& stranger : strangers_) stranger.connection->Close();
  strangers_.clear();
  if (!listener_.is_open()) return GuardedDescriptor();
  ErrorCode error;
  return GuardedDescriptor::Reclaim(listener_.release(error));
}

}  // namespace shoal::internal
