// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/dialer.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/loop_timer.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// Long enough for a lost packet or two, short enough to come to the next
// address; the kernel itself would take two minutes.
constexpr absl::Duration kAttemptTimeout = absl::Seconds(5);
constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);

asio::ip::tcp::endpoint ToEndpoint(const SocketAddress& address) {
  asio::ip::tcp::endpoint endpoint;
  endpoint.resize(address.length);
  std::memcpy(endpoint.data(), &address.storage, address.length);
  return endpoint;
}

}  // namespace

std::shared_ptr<Dialer> Dialer::Start(asio::io_context* loop, Resolver resolver,
                                      ConnectedHandler handler) {
  std::shared_ptr<Dialer> dialer(
      new Dialer(loop, std::move(resolver), std::move(handler)));
  dialer->BeginRound();
  return dialer;
}

Dialer::Dialer(asio::io_context* loop, Resolver resolver,
               ConnectedHandler handler)
    : resolver_(std::move(resolver)),
      handler_(std::move(handler)),
      socket_(*loop),
      attempt_timer_(*loop),
      pause_timer_(*loop),
      pause_(kFirstPause),
      random_(std::random_device()()) {}

void Dialer::BeginRound() {
  absl::StatusOr<std::vector<SocketAddress>> addresses = resolver_();
  if (!addresses.ok()) return Retry(addresses.status());
  addresses_ = *std::move(addresses);
  next_ = 0;
  TryNext();
}

void Dialer::TryNext() {
  if (stopped_) return;
  if (next_ >= addresses_.size()) return Retry(last_error_);
  const SocketAddress address = addresses_[next_++];
  absl::StatusOr<GuardedDescriptor> socket = OpenSocket(address.family());
  ErrorCode error;
  if (socket.ok()) {
    socket_.assign(
        address.family() == AF_INET ? asio::ip::tcp::v4() : asio::ip::tcp::v6(),
        socket->get(), error);
  }
  if (!socket.ok() || error) {
    return Retry(socket.ok() ? absl::ResourceExhaustedError(error.message())
                             : socket.status());
  }
  static_cast<void>(socket->Lend());
  ++attempt_;
  attempt_timer_.expires_after(TimerDuration(kAttemptTimeout));
  attempt_timer_.async_wait(
      [self = shared_from_this(), attempt = attempt_](const ErrorCode& error) {
        if (!error && attempt == self->attempt_) self->OnAttemptTimeout();
      });
  socket_.async_connect(ToEndpoint(address),
                        [self = shared_from_this(), attempt = attempt_,
                         address](const ErrorCode& error) {
                          if (attempt == self->attempt_) {
                            self->OnConnected(address, error);
                          }
                        });
}

void Dialer::OnConnected(const SocketAddress& address, const ErrorCode& error) {
  ++attempt_;
  attempt_timer_.cancel();
  if (error || IsConnectedToItself(socket_.native_handle())) {
    CloseSocket();
    last_error_ = absl::UnavailableError(
        absl::StrCat("cannot connect to ", address.ToString(), ": ",
                     error ? error.message() : "Connection refused"));
    return TryNext();
  }
  ErrorCode ignored;
  const ConnectedHandler handler = handler_;  // it may call Stop
  handler(GuardedDescriptor::Reclaim(socket_.release(ignored)));
}

void Dialer::OnAttemptTimeout() {
  ++attempt_;
  CloseSocket();
  last_error_ = absl::UnavailableError(absl::StrCat(
      "cannot connect to ", addresses_[next_ - 1].ToString(),
      ": no answer within ", absl::FormatDuration(kAttemptTimeout)));
  TryNext();
}

void Dialer::Retry(absl::Status why) {
  if (stopped_) return;
  last_error_ = std::move(why);
  // Ranks that were started together should not come back together.
  const double share =
      std::uniform_real_distribution<double>(0.5, 1.0)(random_);
  pause_timer_.expires_after(TimerDuration(pause_ * share));
  pause_ = std::min(pause_ * 2, kLongestPause);
  pause_timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error && !self->stopped_) self->BeginRound();
  });
}

void Dialer::Stop() {
  stopped_ = true;
  ++attempt_;
  attempt_timer_.cancel();
  pause_timer_.cancel();
  CloseSocket();
  handler_ = nullptr;
}

void Dialer::CloseSocket() {
  if (!socket_.is_open()) return;
  ErrorCode ignored;
  GuardedDescriptor::Reclaim(socket_.release(ignored)).Close();
}

}  // namespace shoal::internal
