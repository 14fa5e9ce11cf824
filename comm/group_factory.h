// SPDX-License-Identifier: Apache-2.0
//
// Makes the ends of a job's further communicators, for `Split`: links of their
// own, a waker of their own, and the job's failure domain.
//
// One belongs to each rank of a job, and all of its communicators share it.
// Thread-safe: communicators may be split from several threads.

#ifndef SHOAL_COMM_GROUP_FACTORY_H_
#define SHOAL_COMM_GROUP_FACTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/engine_driver.h"
#include "shoal/comm/failure_domain.h"

namespace shoal::internal {

// One rank's view of a communicator that is to be made.
struct Group {
  CommunicatorId id = kWorldId;
  // This rank's in the group.
  int rank = 0;
  // The ranks of the job, by rank of the group.
  std::vector<int> job_ranks;
};

// The ranks that `Split` puts together: those whose color is `color`, in the
// order of their keys, and where these are equal in that of their ranks.
std::vector<int> RanksOfColor(absl::Span<const std::int64_t> colors,
                              absl::Span<const std::int64_t> keys,
                              std::int64_t color);

// `number` is one that rank `job_rank` of the job has given, and gives once.
inline CommunicatorId MakeCommunicatorId(int job_rank, std::uint32_t number) {
  return (static_cast<CommunicatorId>(job_rank) << 32) | number;
}

class GroupFactory {
 public:
  virtual ~GroupFactory() = default;

  // From 1, each once.
  virtual std::uint32_t NextNumber() = 0;

  // This rank's end of `group`. All its ranks call this; waits for them, at
  // most until `deadline`, a time of MonotonicNow. Whatever goes wrong fails
  // the job, naming the rank and `operation`, which had `timeout` from its
  // start.
  virtual absl::StatusOr<EngineDriverOptions> Make(const Group& group,
                                                   const std::string& operation,
                                                   absl::Duration timeout,
                                                   absl::Time deadline) = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_GROUP_FACTORY_H_
