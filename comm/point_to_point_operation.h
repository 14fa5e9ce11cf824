// SPDX-License-Identifier: Apache-2.0
//
// The operations that point_to_point.h has under way: their table, and lists
// of them that need no memory of their own.
//
// Threads: one at a time.

#ifndef SHOAL_COMM_POINT_TO_POINT_OPERATION_H_
#define SHOAL_COMM_POINT_TO_POINT_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/comm/call.h"

namespace shoal::internal {

struct PointToPointOperation {
  enum class State : std::uint8_t {
    kFree,
    kStarted,    // Send: has not gone yet. Recv: its message has not come yet.
    kAnnounced,  // Send: its Recv has not asked for it. Recv: asks for it.
    kReady,      // Send: asked for. Recv: has asked for it.
    kDone,
  };

  Call call;
  State state = State::kFree;
  std::size_t bytes = 0;
  // Of the message, on its link. Sends have it from the start, receives once
  // they have met their announcement.
  std::uint64_t sequence = 0;
  std::uint64_t id = 0;
  // In the one list that it is in.
  PointToPointOperation* next = nullptr;

  bool is_send() const { return call.signature.kind == CallKind::kSend; }
};

// First in, first out, except that one may be taken from the middle. An
// operation is in one list at a time.
class PointToPointList {
 public:
  bool empty() const { return head_ == nullptr; }
  std::size_t size() const { return size_; }
  PointToPointOperation* front() const { return head_; }

  void PushBack(PointToPointOperation* operation) {
    operation->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = operation;
    tail_ = operation;
    ++size_;
  }

  // REQUIRES: not empty
  PointToPointOperation* PopFront() {
    return Take([](const PointToPointOperation&) { return true; });
  }

  // Takes the first operation for which `matches` is true out of the list; null
  // if there is none.
  template <typename Matches>
  PointToPointOperation* Take(Matches matches) {
    PointToPointOperation* before = nullptr;
    for (auto* at = head_; at != nullptr; before = at, at = at->next) {
      if (!matches(*at)) continue;
      (before == nullptr ? head_ : before->next) = at->next;
      if (tail_ == at) tail_ = before;
      at->next = nullptr;
      --size_;
      return at;
    }
    return nullptr;
  }

 private:
  PointToPointOperation* head_ = nullptr;
  PointToPointOperation* tail_ = nullptr;
  std::size_t size_ = 0;
};

// Gives out operations and finds them by id. Their addresses stay.
class PointToPointTable {
 public:
  // A started operation with a new id.
  PointToPointOperation* Add(const Call& call);

  // Null if `id` was never given out or has been removed.
  const PointToPointOperation* Find(std::uint64_t id) const;

  void Remove(std::uint64_t id);

  // All slots, in use (not kFree) or not.
  const std::vector<std::unique_ptr<PointToPointOperation>>& slots() const {
    return slots_;
  }

 private:
  std::vector<std::unique_ptr<PointToPointOperation>> slots_;
  PointToPointList free_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_POINT_TO_POINT_OPERATION_H_
