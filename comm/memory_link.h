// SPDX-License-Identifier: Apache-2.0
//
// Two links in one process that are each other's peer: a bounded ring of bytes
// in each direction.
//
// Each end belongs to one thread at a time, and the two threads need no lock
// between them. Destroying an end is that peer's orderly end: what it wrote
// stays readable, then the other end reads `kEnded`; writes of the other end
// are `kEnded` at once, as to a closed socket.
//
// A thread that parks is woken through `SetWakeup` of its own end, since there
// is no descriptor to poll. A wake-up is never lost: what it announces is
// visible to a thread that has been woken, and the order between "moved, then
// called" here and "parked, then looked once more" there is sequentially
// consistent.

#ifndef SHOAL_COMM_MEMORY_LINK_H_
#define SHOAL_COMM_MEMORY_LINK_H_

#include <sys/uio.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/link.h"

namespace shoal::internal {

struct MemoryLinkOptions {
  // Of each direction; at least 1 is taken.
  std::size_t capacity_bytes = 256 * 1024;
};

class MemoryLink : public Link {
 public:
  ~MemoryLink() override;

  MemoryLink(const MemoryLink&) = delete;
  MemoryLink& operator=(const MemoryLink&) = delete;

  // `wakeup` is called, by the peer's thread, each time the peer has written
  // bytes, freed space, stopped writing or gone. It must not call this link or
  // its peer. It is not called any more once another one, or null, is set, or
  // this end is destroyed; either waits for a call that is under way.
  void SetWakeup(std::function<void()> wakeup);

  LinkResult TryWrite(absl::Span<const struct iovec> pieces) override;
  LinkResult TryRead(absl::Span<const struct iovec> pieces) override;
  void ShutdownWrite() override;
  bool PeerHasEnded() const override;
  int descriptor() const override { return -1; }
  std::string end_reason() const override;

 private:
  struct Shared;

  friend std::pair<std::unique_ptr<MemoryLink>, std::unique_ptr<MemoryLink>>
  MakeMemoryLinkPair(const MemoryLinkOptions& options);

  MemoryLink(std::shared_ptr<Shared> shared, int end);

  void WakePeer();

  const std::shared_ptr<Shared> shared_;
  const int end_;  // 0 or 1
  bool wrote_to_dead_end_ = false;
};

std::pair<std::unique_ptr<MemoryLink>, std::unique_ptr<MemoryLink>>
MakeMemoryLinkPair(const MemoryLinkOptions& options = {});

}  // namespace shoal::internal

#endif  // SHOAL_COMM_MEMORY_LINK_H_
