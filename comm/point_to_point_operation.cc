// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/point_to_point_operation.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"

namespace shoal::internal {
namespace {

// An id is the slot's index below and how often the slot was used above.
constexpr int kIndexBits = 32;
constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kIndexBits) - 1;

}  // namespace

PointToPointOperation* PointToPointTable::Add(const Call& call) {
  if (free_.empty()) {
    auto slot = std::make_unique<PointToPointOperation>();
    slot->id = slots_.size();
    free_.PushBack(slot.get());
    slots_.push_back(std::move(slot));
  }
  PointToPointOperation* const operation = free_.PopFront();
  operation->id += kIndexMask + 1;
  operation->call = call;
  operation->state = PointToPointOperation::State::kStarted;
  operation->bytes = static_cast<std::size_t>(call.signature.count) *
                     DTypeSize(call.signature.dtype);
  operation->sequence = 0;
  return operation;
}

const PointToPointOperation* PointToPointTable::Find(std::uint64_t id) const {
  const std::uint64_t index = id & kIndexMask;
  if (index >= slots_.size()) return nullptr;
  const PointToPointOperation& operation = *slots_[index];
  if (operation.id != id) return nullptr;
  if (operation.state == PointToPointOperation::State::kFree) return nullptr;
  return &operation;
}

void PointToPointTable::Remove(std::uint64_t id) {
  if (Find(id) == nullptr) return;
  PointToPointOperation* const operation = slots_[id & kIndexMask].get();
  operation->state = PointToPointOperation::State::kFree;
  free_.PushBack(operation);
}

}  // namespace shoal::internal
