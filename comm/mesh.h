// SPDX-License-Identifier: Apache-2.0
//
// Connects a rank with all others once everyone's addresses are known.
//
// Each pair of ranks gets a collective link, and a control link unless one of
// the two is rank 0 (whose bootstrap connections become its control links). The
// higher rank dials, says what the connection is for, and is told that it was
// taken. A connection that ends before that is dialled again.
//
// Everything runs on the loop's one thread.

#ifndef SHOAL_COMM_MESH_H_
#define SHOAL_COMM_MESH_H_

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/dialer.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/framed_connection.h"
#include "shoal/comm/tcp_address.h"

namespace shoal::internal {

struct MeshOptions {
  LinkExpectation self;
  // Of each rank; only those of lower ranks are used.
  std::vector<std::vector<SocketAddress>> addresses;
};

class Mesh : public std::enable_shared_from_this<Mesh> {
 public:
  // Calls `on_complete` once, when all links are there.
  static std::shared_ptr<Mesh> Start(boost::asio::io_context* loop,
                                     MeshOptions options,
                                     std::function<void()> on_complete);

  // A higher rank has dialled. An error says why it is to be turned away; the
  // connection is then still the caller's.
  absl::Status Take(const comm::LinkHello& hello,
                    std::shared_ptr<FramedConnection> connection);

  bool complete() const { return missing_ == 0; }

  // For people: "no link from rank 3; no link to rank 1 (cannot connect to
  // 10.0.0.2:4711: Connection refused)".
  std::string Missing() const;

  // By rank; invalid ones where there is no such link.
  // REQUIRES: complete().
  std::vector<GuardedDescriptor> TakeLinks(comm::LinkHello::Purpose purpose);

  void Stop();

 private:
  struct Slot {
    comm::LinkHello::Purpose purpose;
    int peer;
    std::shared_ptr<Dialer> dialer;  // null: the peer dials
    std::shared_ptr<FramedConnection> connection;
    GuardedDescriptor link;
  };

  Mesh(boost::asio::io_context* loop, MeshOptions options,
       std::function<void()> on_complete);

  void Dial(Slot* slot);
  void Introduce(Slot* slot, GuardedDescriptor socket);
  void OnAnswer(Slot* slot, absl::StatusOr<std::string> payload);
  void Complete(Slot* slot);
  Slot* FindSlot(comm::LinkHello::Purpose purpose, int peer);

  boost::asio::io_context* const loop_;
  const MeshOptions options_;
  std::function<void()> on_complete_;
  std::vector<Slot> slots_;  // never grows, so that pointers into it stay good
  int missing_ = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_MESH_H_
