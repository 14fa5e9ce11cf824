// SPDX-License-Identifier: Apache-2.0
//
// Ends links in good order.
//
// A socket that is closed while bytes for it are on their way answers them with
// a reset, and a reset destroys what has not been sent yet. So a rank first
// says on every link that it writes no more, and then reads what comes, until
// each peer has said the same, or has everything that this rank wrote: then no
// reset can take it away any more, and a peer that goes on is not waited for.

#ifndef SHOAL_COMM_LINK_DRAIN_H_
#define SHOAL_COMM_LINK_DRAIN_H_

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/link.h"

namespace shoal::internal {

// Shuts down writing on all `links` and discards what arrives, until each has
// ended or the peer's machine has acknowledged every byte, at most for
// `timeout`; with zero, looks once and does not wait. Links without a
// descriptor keep written bytes by themselves and are not waited for.
void DrainLinks(absl::Span<Link* const> links, absl::Duration timeout);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_LINK_DRAIN_H_
