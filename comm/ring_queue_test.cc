// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/ring_queue.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <random>

#include "gtest/gtest.h"

namespace shoal::internal {
namespace {

TEST(RingQueueTest, IsLikeADeque) {
  std::mt19937 random(7);
  RingQueue<int> queue;
  std::deque<int> model;
  for (int i = 0; i < 20000; ++i) {
    // Longer and longer, and empty now and then.
    const bool push = model.empty() || random() % 1000 < 505;
    if (push) {
      queue.PushBack(i);
      model.push_back(i);
    } else {
      queue.PopFront();
      model.pop_front();
    }
    if (i % 5000 == 4999) {
      queue.Clear();
      model.clear();
    }
    ASSERT_EQ(queue.size(), model.size());
    ASSERT_EQ(queue.empty(), model.empty());
    if (model.empty()) continue;
    ASSERT_EQ(queue.front(), model.front());
    const std::size_t any = random() % model.size();
    ASSERT_EQ(queue[any], model[any]);
  }
}

TEST(RingQueueTest, HoldsWhatCanOnlyBeMoved) {
  RingQueue<std::unique_ptr<int>> queue;
  for (int i = 0; i < 100; ++i) queue.PushBack(std::make_unique<int>(i));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(*queue.front(), i);
    queue.PopFront();
  }
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace shoal::internal
