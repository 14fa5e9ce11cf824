// SPDX-License-Identifier: Apache-2.0
//
// The schedules that one rank has used, so that a call which is made again and
// again does not make its schedule again.
//
// Bounded: when it is full, it begins anew. A schedule that is in use stays
// alive through its shared pointer. Threads: one.

#ifndef SHOAL_COMM_SCHEDULE_CACHE_H_
#define SHOAL_COMM_SCHEDULE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "shoal/comm/call.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {

class ScheduleCache {
 public:
  static constexpr std::size_t kCapacity = 256;

  ScheduleCache(int rank, int world_size)
      : rank_(rank), world_size_(world_size) {}

  // The schedule for `call`, whose algorithm has been chosen. The errors are
  // those of `BuildSchedule`.
  absl::StatusOr<std::shared_ptr<const Schedule>> Get(const Call& call);

  std::size_t size() const { return schedules_.size(); }

 private:
  // What a schedule depends on; types and ops are not part of it, but the
  // signature that it carries is.
  using Key = std::tuple<std::uint64_t, std::int64_t, std::int32_t,
                         std::vector<std::int64_t>>;

  const int rank_;
  const int world_size_;
  absl::flat_hash_map<Key, std::shared_ptr<const Schedule>> schedules_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SCHEDULE_CACHE_H_
