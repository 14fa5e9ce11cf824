// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_point_to_point_links.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/link.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_job.h"
#include "shoal/comm/tcp_link.h"
#include "shoal/comm/tcp_socket.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

class TcpPointToPointLinks final : public PointToPointLinks {
 public:
  TcpPointToPointLinks(LinkExpectation self,
                       std::vector<std::vector<std::string>> addresses,
                       std::shared_ptr<TcpJob> job, TcpLinkFactory factory)
      : self_(std::move(self)),
        addresses_(std::move(addresses)),
        job_(std::move(job)),
        factory_(std::move(factory)) {}

  void SetWaker(std::shared_ptr<Waker> waker) override {
    job_->SetLinkWaker(std::move(waker));
  }

  absl::StatusOr<std::unique_ptr<Link>> OpenOutgoing(
      int peer, absl::Duration timeout) override;

  bool HasIncoming() const override { return job_->HasLinks(); }

  std::vector<std::pair<int, std::unique_ptr<Link>>> TakeIncoming() override {
    std::vector<std::pair<int, std::unique_ptr<Link>>> links;
    for (auto& [peer, socket] : job_->TakeLinks()) {
      absl::StatusOr<std::unique_ptr<Link>> link =
          factory_.Make(std::move(socket));
      // Without descriptors the job cannot go on; the sender waits in vain.
      if (!link.ok()) {
        job_->Fail(self_.rank, link.status());
      } else {
        links.emplace_back(peer, *std::move(link));
      }
    }
    return links;
  }

 private:
  std::string Hello(int peer) const;

  const LinkExpectation self_;
  const std::vector<std::vector<std::string>> addresses_;
  const std::shared_ptr<TcpJob> job_;
  const TcpLinkFactory factory_;
};

absl::StatusOr<std::unique_ptr<Link>> TcpPointToPointLinks::OpenOutgoing(
    int peer, absl::Duration timeout) {
  const absl::Time deadline = MonotonicNow() + timeout;
  const std::string hello = Hello(peer);
  absl::Status error =
      absl::UnavailableError(absl::StrCat("rank ", peer, " has no address"));
  for (const std::string& text : addresses_[peer]) {
    SHOAL_ASSIGN_OR_RETURN(const HostPort host_port, ParseHostPort(text));
    const absl::StatusOr<std::vector<SocketAddress>> resolved =
        Resolve(host_port);
    if (!resolved.ok()) {
      error = resolved.status();
      continue;
    }
    for (const SocketAddress& address : *resolved) {
      absl::StatusOr<GuardedDescriptor> socket = ConnectAndSend(
          address, hello, deadline, [this] { return job_->failed(); });
      if (socket.ok()) return factory_.Make(*std::move(socket));
      error = socket.status();
      if (absl::IsCancelled(error)) return job_->status();
    }
  }
  return error;
}

std::string TcpPointToPointLinks::Hello(int peer) const {
  comm::BootstrapMessage message;
  comm::LinkHello* const hello = message.mutable_link_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_job_id(self_.job_id);
  hello->set_session(self_.session);
  hello->set_from(self_.rank);
  hello->set_to(peer);
  hello->set_purpose(comm::LinkHello::POINT_TO_POINT);
  return EncodeFrame(EncodeBootstrap(message));
}

}  // namespace

std::unique_ptr<PointToPointLinks> MakeTcpPointToPointLinks(
    LinkExpectation self, std::vector<std::vector<std::string>> addresses,
    std::shared_ptr<TcpJob> job, TcpLinkFactory factory) {
  return std::make_unique<TcpPointToPointLinks>(
      std::move(self), std::move(addresses), std::move(job),
      std::move(factory));
}

}  // namespace shoal::internal
