// SPDX-License-Identifier: Apache-2.0
//
// Nothing is allocated for messages whose Recv is there before them.

#include <cstdint>

#include "gtest/gtest.h"
#include "shoal/base/allocation_counter.h"
#include "shoal/comm/point_to_point.h"
#include "shoal/comm/point_to_point_simulator.h"
#include "shoal/comm/point_to_point_test_support.h"

namespace shoal::internal {
namespace {

using PointToPointAllocationTest = PointToPointTest;

TEST_F(PointToPointAllocationTest, NoneForMessagesThatAreAskedFor) {
  TestMessage sent[] = {Bytes(1, 0, 1, 1), Bytes(1, 0, kEager, 2),
                        Bytes(1, 0, kLarge, 3)};
  TestMessage received[] = {Bytes(0, 0, 1), Bytes(0, 0, kEager),
                            Bytes(0, 0, kLarge)};
  world_.Connect(0, 1);
  const auto exchange = [&] {
    for (int i = 0; i < 3; ++i) {
      const auto receive = receiver().StartRecv(received[i].RecvCall());
      const auto send = sender().StartSend(sent[i].SendCall());
      bool moved = true;
      while (moved) {
        moved = sender().Progress();
        moved |= receiver().Progress();
      }
      ASSERT_TRUE(sender().IsDone(send) && receiver().IsDone(receive));
      sender().Forget(send);
      receiver().Forget(receive);
    }
  };
  for (int i = 0; i < 10; ++i) exchange();
  const std::int64_t before = Allocations();
  for (int i = 0; i < 1000; ++i) exchange();
  EXPECT_EQ(Allocations() - before, 0);
}

}  // namespace
}  // namespace shoal::internal
