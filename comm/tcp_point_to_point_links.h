// SPDX-License-Identifier: Apache-2.0
//
// Point-to-point links (point_to_point_links.h) over TCP.
//
// The sender connects to the receiver's listener, says who it is, and sends at
// once; the receiver's service thread takes the connection and hands it over.
// Nothing is answered: a receiver that does not want the connection ends it.

#ifndef SHOAL_COMM_TCP_POINT_TO_POINT_LINKS_H_
#define SHOAL_COMM_TCP_POINT_TO_POINT_LINKS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/link_inbox.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_job.h"
#include "shoal/comm/tcp_link.h"

namespace shoal::internal {

// The way to one rank: addresses to be tried in order, or why there are none.
using PeerAddresses = absl::StatusOr<std::vector<SocketAddress>>;

// Resolves each rank's "host:port"s. Blocks while a name server is asked.
std::vector<PeerAddresses> ResolvePeers(
    const std::vector<std::vector<std::string>>& addresses);

// The first message on a link of `self` to rank `to` of the job.
std::string EncodeLinkHello(const LinkExpectation& self, int to,
                            comm::LinkHello::Purpose purpose,
                            CommunicatorId communicator);

struct TcpPointToPointLinksOptions {
  explicit TcpPointToPointLinksOptions(TcpLinkFactory factory)
      : factory(std::move(factory)) {}

  LinkExpectation self;  // in the job
  CommunicatorId communicator = kWorldId;
  // The ranks of the job, by rank of the communicator.
  std::vector<int> job_ranks;
  // By rank of the job.
  std::shared_ptr<const std::vector<PeerAddresses>> addresses;
  std::shared_ptr<TcpJob> job;
  std::shared_ptr<LinkInbox> inbox;
  TcpLinkFactory factory;
};

// The job does not know the inbox any more once the links are destroyed.
std::unique_ptr<PointToPointLinks> MakeTcpPointToPointLinks(
    TcpPointToPointLinksOptions options);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_POINT_TO_POINT_LINKS_H_
