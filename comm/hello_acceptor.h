// SPDX-License-Identifier: Apache-2.0
//
// Accepts connections and reads the first message of each, from whomever it may
// come.
//
// Nothing that arrives is believed: a first message has a bounded length and a
// bounded time, and only a bounded number of connections may be silent at once
// (the oldest has to go for a new one). What sends no message of Shoal is
// closed with a line in the log; after a hundred lines the log falls silent.
//
// Everything runs on the loop's one thread. The handler is not called after
// `Stop`.

#ifndef SHOAL_COMM_HELLO_ACCEPTOR_H_
#define SHOAL_COMM_HELLO_ACCEPTOR_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/framed_connection.h"

namespace shoal::internal {

struct HelloAcceptorOptions {
  absl::Duration hello_timeout = kHelloTimeout;
  std::size_t max_silent_connections = kMaxSilentConnections;
  std::function<void(absl::string_view)> log;  // not empty
};

class HelloAcceptor : public std::enable_shared_from_this<HelloAcceptor> {
 public:
  // Gets a well-formed message and its connection, on which nothing is being
  // read any more.
  using HelloHandler = std::function<void(comm::BootstrapMessage,
                                          std::shared_ptr<FramedConnection>)>;

  // `RESOURCE_EXHAUSTED` when the loop cannot take the listener.
  static absl::StatusOr<std::shared_ptr<HelloAcceptor>> Start(
      boost::asio::io_context* loop, GuardedDescriptor listener,
      HelloAcceptorOptions options, HelloHandler handler);

  // Logs and tells the peer why it is turned away, and closes the connection
  // when it has read that, or after the hello's time.
  void Refuse(std::shared_ptr<FramedConnection> connection,
              const absl::Status& reason);

  // Drops all connections of which nothing is known, and gives the listener
  // back.
  GuardedDescriptor Stop();

 private:
  struct Stranger {
    std::shared_ptr<FramedConnection> connection;
    std::chrono::steady_clock::time_point deadline;
    bool refused = false;
  };
  using StrangerPosition = std::list<Stranger>::iterator;

  HelloAcceptor(boost::asio::io_context* loop,
                boost::asio::ip::tcp::acceptor listener,
                HelloAcceptorOptions options, HelloHandler handler);

  void AwaitConnection();
  void AcceptWaiting();
  void AcceptAfterPause();
  void Greet(GuardedDescriptor socket);
  StrangerPosition AddStranger(std::shared_ptr<FramedConnection> connection);
  void OnFrame(StrangerPosition position, absl::StatusOr<std::string> payload);
  void AwaitDeadline();
  void DropLateOnes();
  void Drop(StrangerPosition position, absl::string_view reason);
  void Log(absl::string_view line);

  boost::asio::io_context* const loop_;
  boost::asio::ip::tcp::acceptor listener_;
  boost::asio::steady_timer deadline_timer_;
  boost::asio::steady_timer pause_timer_;
  const HelloAcceptorOptions options_;
  HelloHandler handler_;
  // In the order of their deadlines.
  std::list<Stranger> strangers_;
  int lines_logged_ = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_HELLO_ACCEPTOR_H_
