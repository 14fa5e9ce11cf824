// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/link_drain.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shoal/comm/link.h"
#include "shoal/comm/monotonic_clock.h"

namespace shoal::internal {
namespace {

// Reads what is there; true once the link has ended. Bounded, so that a peer
// that never stops sending does not keep the caller from its deadline.
bool DiscardWhatIsThere(Link* link, absl::Span<char> buffer) {
  constexpr int kMaxReads = 64;
  const struct iovec piece = {buffer.data(), buffer.size()};
  for (int reads = 0; reads < kMaxReads; ++reads) {
    const LinkResult result = link->TryRead({&piece, 1});
    if (result.state == LinkState::kEnded) return true;
    if (result.state == LinkState::kWouldBlock) return false;
  }
  return false;
}

// How often the kernel is asked for what is not acknowledged yet. No event
// tells of it.
constexpr absl::Duration kAcknowledgementInterval = absl::Milliseconds(2);

// Whether the peer has all bytes up to the end, which counts as one.
bool IsAcknowledged(const Link& link) {
  int unacknowledged = 0;
  return ioctl(link.descriptor(), SIOCOUTQ, &unacknowledged) != 0 ||
         unacknowledged == 0;
}

}  // namespace

void DrainLinks(absl::Span<Link* const> links, absl::Duration timeout) {
  std::vector<Link*> open;
  for (Link* link : links) {
    link->ShutdownWrite();
    if (link->descriptor() >= 0) open.push_back(link);
  }
  std::vector<char> buffer(64 * 1024);
  const absl::Time deadline = MonotonicNow() + timeout;
  for (;;) {
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&buffer](Link* link) {
                                return DiscardWhatIsThere(
                                           link, absl::MakeSpan(buffer)) ||
                                       IsAcknowledged(*link);
                              }),
               open.end());
    const absl::Duration left = deadline - MonotonicNow();
    if (open.empty() || left <= absl::ZeroDuration()) return;
    std::vector<struct pollfd> descriptors;
    for (Link* link : open) {
      descriptors.push_back({link->descriptor(), POLLIN, 0});
    }
    const absl::Duration wait = std::min(left, kAcknowledgementInterval);
    poll(descriptors.data(), descriptors.size(),
         static_cast<int>(absl::ToInt64Milliseconds(
             absl::Ceil(wait, absl::Milliseconds(1)))));
  }
}

}  // namespace shoal::internal
