// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/link_drain.h"

#include <poll.h>
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
                                    link, absl::MakeSpan(buffer));
                              }),
               open.end());
    const absl::Duration left = deadline - MonotonicNow();
    if (open.empty() || left <= absl::ZeroDuration()) return;
    std::vector<struct pollfd> descriptors;
    for (Link* link : open) {
      descriptors.push_back({link->descriptor(), POLLIN, 0});
    }
    const int milliseconds = static_cast<int>(
        absl::ToInt64Milliseconds(std::min(left, absl::Minutes(1))) + 1);
    poll(descriptors.data(), descriptors.size(), milliseconds);
  }
}

}  // namespace shoal::internal
