// SPDX-License-Identifier: Apache-2.0
//
// A first-in, first-out queue that keeps its memory: once it has been as long
// as it gets, pushing and popping allocate nothing.
//
// Not thread-safe. Indices count from the front; they and `front` need an
// element to be there.

#ifndef SHOAL_COMM_RING_QUEUE_H_
#define SHOAL_COMM_RING_QUEUE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "shoal/base/dialect.h"

namespace shoal::internal {

template <typename T>
class RingQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  T& operator[](std::size_t index) { return slots_[Position(index)]; }
  const T& operator[](std::size_t index) const {
    return slots_[Position(index)];
  }
  T& front() { return slots_[begin_]; }
  const T& front() const { return slots_[begin_]; }

  void PushBack(T value) {
    if (size_ == slots_.size()) Grow();
    slots_[Position(size_)] = std::move(value);
    ++size_;
  }

  void PopFront() {
    begin_ = Position(1);
    --size_;
  }

  void Clear() {
    begin_ = 0;
    size_ = 0;
  }

 private:
  // The capacity is a power of two.
  std::size_t Position(std::size_t index) const {
    return (begin_ + index) & (slots_.size() - 1);
  }

  void Grow() {
    std::vector<T> larger(slots_.empty() ? 8 : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    begin_ = 0;
  }

  std::vector<T> slots_;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_RING_QUEUE_H_
