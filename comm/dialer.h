// SPDX-License-Identifier: Apache-2.0
//
// Connects to a peer that may not be there yet: tries all of its addresses in
// turn, again and again with growing pauses, until it is stopped.
//
// It knows no deadline of its own. Whoever gives up tells the user the last
// error, which the dialer keeps.
//
// Everything runs on the loop's one thread. The handler is not called after
// `Stop`.

#ifndef SHOAL_COMM_DIALER_H_
#define SHOAL_COMM_DIALER_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/tcp_address.h"

namespace shoal::internal {

class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  // Asked before each round, because a name may get its address late. May
  // block for as long as the system's resolver does.
  using Resolver = std::function<absl::StatusOr<std::vector<SocketAddress>>()>;
  using ConnectedHandler = std::function<void(GuardedDescriptor)>;

  static std::shared_ptr<Dialer> Start(boost::asio::io_context* loop,
                                       Resolver resolver,
                                       ConnectedHandler handler);

  // After the handler was called: the connection was of no use, because of
  // `why`; connects again after a pause, and calls the handler again.
  void Retry(absl::Status why);

  void Stop();

  // Why there is no connection; OK before the first failure. Names the address.
  const absl::Status& last_error() const { return last_error_; }

 private:
  Dialer(boost::asio::io_context* loop, Resolver resolver,
         ConnectedHandler handler);

  void BeginRound();
  void TryNext();
  void OnConnected(const SocketAddress& address,
                   const boost::system::error_code& error);
  void OnAttemptTimeout();
  void CloseSocket();

  Resolver resolver_;
  ConnectedHandler handler_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer attempt_timer_;
  boost::asio::steady_timer pause_timer_;
  std::vector<SocketAddress> addresses_;
  std::size_t next_ = 0;
  // Tells the handlers of an attempt that is over from those of the present.
  std::uint64_t attempt_ = 0;
  absl::Duration pause_;
  std::minstd_rand random_;
  bool stopped_ = false;
  absl::Status last_error_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_DIALER_H_
