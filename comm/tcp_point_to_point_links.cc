// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_point_to_point_links.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/link.h"
#include "shoal/comm/link_inbox.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_job.h"
#include "shoal/comm/tcp_link.h"
#include "shoal/comm/tcp_socket.h"
#include "shoal/comm/waker.h"

namespace shoal::internal {
namespace {

// Tries the addresses of a rank one after the other.
class TcpOpening final : public LinkOpening {
 public:
  TcpOpening(PeerAddresses addresses, std::string hello, TcpLinkFactory factory)
      : addresses_(std::move(addresses)),
        hello_(std::move(hello)),
        factory_(std::move(factory)) {}

  absl::StatusOr<std::unique_ptr<Link>> TryFinish() override {
    if (!addresses_.ok()) return addresses_.status();
    while (connecting_.has_value() || next_ < addresses_->size()) {
      if (!connecting_.has_value()) {
        absl::StatusOr<Connecting> begun =
            Connecting::Begin((*addresses_)[next_++], hello_);
        if (!begun.ok()) {
          error_ = begun.status();
          continue;
        }
        connecting_ = *std::move(begun);
      }
      const absl::StatusOr<bool> done = connecting_->TryFinish();
      if (done.ok()) {
        return *done ? factory_.Make(connecting_->Take())
                     : absl::StatusOr<std::unique_ptr<Link>>(nullptr);
      }
      error_ = done.status();
      connecting_.reset();
    }
    return error_;
  }

  int descriptor() const override { return connecting_->descriptor(); }

 private:
  const PeerAddresses addresses_;
  const std::string hello_;
  const TcpLinkFactory factory_;
  std::size_t next_ = 0;
  std::optional<Connecting> connecting_;
  absl::Status error_ = absl::UnavailableError("the rank has no address");
};

class TcpPointToPointLinks final : public PointToPointLinks {
 public:
  explicit TcpPointToPointLinks(TcpPointToPointLinksOptions options)
      : options_(std::move(options)) {}
  ~TcpPointToPointLinks() override {
    options_.job->CloseInbox(options_.communicator);
  }

  void SetWaker(std::shared_ptr<Waker> waker) override {
    options_.inbox->SetWaker(std::move(waker));
  }

  std::unique_ptr<LinkOpening> OpenOutgoing(int peer) override {
    const int to = options_.job_ranks[peer];
    return std::make_unique<TcpOpening>(
        (*options_.addresses)[to],
        EncodeLinkHello(options_.self, to, comm::LinkHello::POINT_TO_POINT,
                        options_.communicator),
        options_.factory);
  }

  bool HasIncoming() const override {
    return options_.inbox->Has(LinkPurpose::kPointToPoint);
  }

  std::vector<std::pair<int, std::unique_ptr<Link>>> TakeIncoming() override;

 private:
  int RankOf(int job_rank) const {
    for (std::size_t rank = 0; rank < options_.job_ranks.size(); ++rank) {
      if (options_.job_ranks[rank] == job_rank) return static_cast<int>(rank);
    }
    return -1;
  }

  const TcpPointToPointLinksOptions options_;
};

std::vector<std::pair<int, std::unique_ptr<Link>>>
TcpPointToPointLinks::TakeIncoming() {
  std::vector<std::pair<int, std::unique_ptr<Link>>> links;
  for (auto& [peer, socket] :
       options_.inbox->Take(LinkPurpose::kPointToPoint)) {
    absl::StatusOr<std::unique_ptr<Link>> link =
        options_.factory.Make(std::move(socket));
    // Without descriptors the job cannot go on; the sender waits in vain.
    if (!link.ok()) {
      options_.job->Fail(options_.self.rank, link.status());
    } else {
      // The inbox takes links from the ranks of the communicator only.
      links.emplace_back(RankOf(peer), *std::move(link));
    }
  }
  return links;
}

}  // namespace

std::vector<PeerAddresses> ResolvePeers(
    const std::vector<std::vector<std::string>>& addresses) {
  std::vector<PeerAddresses> peers;
  for (const std::vector<std::string>& texts : addresses) {
    std::vector<SocketAddress> all;
    absl::Status error = absl::UnavailableError("the rank has no address");
    for (const std::string& text : texts) {
      const absl::StatusOr<HostPort> host_port = ParseHostPort(text);
      absl::StatusOr<std::vector<SocketAddress>> resolved =
          host_port.ok()
              ? Resolve(*host_port)
              : absl::StatusOr<std::vector<SocketAddress>>(host_port.status());
      if (!resolved.ok()) {
        error = resolved.status();
        continue;
      }
      all.insert(all.end(), resolved->begin(), resolved->end());
    }
    peers.push_back(all.empty() ? PeerAddresses(error)
                                : PeerAddresses(std::move(all)));
  }
  return peers;
}

std::string EncodeLinkHello(const LinkExpectation& self, int to,
                            comm::LinkHello::Purpose purpose,
                            CommunicatorId communicator) {
  comm::BootstrapMessage message;
  comm::LinkHello* const hello = message.mutable_link_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_job_id(self.job_id);
  hello->set_session(self.session);
  hello->set_from(self.rank);
  hello->set_to(to);
  hello->set_purpose(purpose);
  hello->set_communicator(communicator);
  return EncodeFrame(EncodeBootstrap(message));
}

std::unique_ptr<PointToPointLinks> MakeTcpPointToPointLinks(
    TcpPointToPointLinksOptions options) {
  return std::make_unique<TcpPointToPointLinks>(std::move(options));
}

}  // namespace shoal::internal
