// SPDX-License-Identifier: Apache-2.0
//
// A connection that a test speaks on, byte by byte, and what it may say while a
// world is forming.

#ifndef SHOAL_COMM_STRANGER_H_
#define SHOAL_COMM_STRANGER_H_

#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/tcp_address.h"

namespace shoal::internal {

inline std::string Framed(const comm::BootstrapMessage& message) {
  return EncodeFrame(EncodeBootstrap(message));
}

class Stranger {
 public:
  explicit Stranger(GuardedDescriptor socket) : socket_(std::move(socket)) {}
  Stranger(const std::string& address, absl::string_view first_bytes)
      : Stranger(
            DialWith(Resolve(*ParseHostPort(address))->front(), first_bytes)) {}

  int descriptor() const { return socket_.get(); }

  void Send(absl::string_view bytes) { SendBytes(socket_.get(), bytes); }
  void Send(const comm::BootstrapMessage& message) { Send(Framed(message)); }

  // The payload of the next frame; `UNAVAILABLE` at the end of the stream.
  absl::StatusOr<std::string> ReceiveFrame() {
    while (true) {
      AwaitEvents(socket_.get(), POLLIN);
      const auto wanted = reader_.Wanted();
      const ssize_t got = recv(socket_.get(), wanted.data(), wanted.size(), 0);
      if (got <= 0) return absl::UnavailableError("the end");
      const absl::StatusOr<bool> complete =
          reader_.Filled(static_cast<std::size_t>(got));
      if (!complete.ok()) return complete.status();
      if (*complete) return reader_.TakePayload();
    }
  }

  absl::StatusOr<comm::BootstrapMessage> Receive() {
    const absl::StatusOr<std::string> payload = ReceiveFrame();
    if (!payload.ok()) return payload.status();
    return DecodeBootstrap(*payload);
  }

  void AwaitEnd() {
    while (Receive().ok()) {
    }
  }

  void Close() { socket_.Close(); }

  std::string own_address() const {
    return LocalAddress(socket_.get())->ToString();
  }

 private:
  GuardedDescriptor socket_;
  FrameReader reader_{kMaxTrustedPayload};
};

// What a rank of the job "test" says first to rank 0.
inline comm::BootstrapMessage GoodHello(int rank, int world_size) {
  comm::BootstrapMessage message;
  comm::Hello* const hello = message.mutable_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_job_id("test");
  hello->set_rank(rank);
  hello->set_world_size(world_size);
  hello->add_addresses("127.0.0.1:1");
  hello->set_host_id(HostId());
  hello->set_pid(4711);
  return message;
}

// And what it says to ask for a link.
inline comm::BootstrapMessage GoodLinkHello(std::uint64_t session, int from,
                                            int to,
                                            comm::LinkHello::Purpose purpose) {
  comm::BootstrapMessage message;
  comm::LinkHello* const hello = message.mutable_link_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_job_id("test");
  hello->set_session(session);
  hello->set_from(from);
  hello->set_to(to);
  hello->set_purpose(purpose);
  return message;
}

}  // namespace shoal::internal

#endif  // SHOAL_COMM_STRANGER_H_
