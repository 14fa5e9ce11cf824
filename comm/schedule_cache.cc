// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/schedule_cache.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/status/statusor.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

// In place in the sense of communicator.h; arguments that overlap in any other
// way have been refused.
bool IsInPlace(const Call& call, int rank) {
  const CallSignature& signature = call.signature;
  const auto input = reinterpret_cast<std::uintptr_t>(call.input);
  const auto output = reinterpret_cast<std::uintptr_t>(call.output);
  std::int64_t elements_before = signature.count * rank;
  if (signature.kind == CallKind::kAllGatherV) {
    elements_before = std::accumulate(
        call.counts.begin(), call.counts.begin() + rank, std::int64_t{0});
  }
  const auto part = static_cast<std::uintptr_t>(
      elements_before * static_cast<std::int64_t>(DTypeSize(signature.dtype)));
  switch (signature.kind) {
    case CallKind::kReduceScatter:
    case CallKind::kScatter:
      return output == input + part;
    case CallKind::kAllGather:
    case CallKind::kAllGatherV:
    case CallKind::kGather:
      return input == output + part;
    default:
      return input == output;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Schedule>> ScheduleCache::Get(
    const Call& call) {
  const CallSignature& signature = call.signature;
  const bool in_place = IsInPlace(call, rank_);
  std::uint64_t packed = static_cast<std::uint8_t>(signature.kind);
  packed = packed << 8 | static_cast<std::uint8_t>(signature.dtype);
  packed = packed << 8 | static_cast<std::uint8_t>(signature.op);
  packed = packed << 8 | static_cast<std::uint8_t>(signature.algorithm);
  packed = packed << 8 | static_cast<std::uint8_t>(signature.wire);
  packed = packed << 1 | static_cast<std::uint64_t>(in_place);
  const Key key(packed, signature.count, signature.root, call.counts);
  if (const auto found = schedules_.find(key); found != schedules_.end()) {
    return found->second;
  }
  SHOAL_ASSIGN_OR_RETURN(
      Schedule schedule,
      BuildSchedule({signature, call.counts, rank_, world_size_, in_place}));
  if (schedules_.size() >= kCapacity) schedules_.clear();
  auto shared = std::make_shared<const Schedule>(std::move(schedule));
  schedules_.emplace(key, shared);
  return shared;
}

}  // namespace shoal::internal
