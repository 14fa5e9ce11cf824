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
#include <vector>

#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/point_to_point_links.h"
#include "shoal/comm/tcp_job.h"
#include "shoal/comm/tcp_link.h"

namespace shoal::internal {

// `self` is this rank; `addresses` are those of each rank, to be tried in
// order.
std::unique_ptr<PointToPointLinks> MakeTcpPointToPointLinks(
    LinkExpectation self, std::vector<std::vector<std::string>> addresses,
    std::shared_ptr<TcpJob> job, TcpLinkFactory factory);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TCP_POINT_TO_POINT_LINKS_H_
