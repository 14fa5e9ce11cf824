// SPDX-License-Identifier: Apache-2.0
//
// Nothing is allocated while operations run, once the largest number of
// concurrent ones has been seen.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/allocation_counter.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/engine.h"
#include "shoal/comm/memory_link.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

TEST(EngineAllocationTest, NoneInSteadyState) {
  constexpr int kConcurrent = 3;
  constexpr int kCount = 1000;
  auto [a, b] = MakeMemoryLinkPair({.capacity_bytes = 500});
  Engine engines[] = {{0, 2, {nullptr, a.get()}, {.slice_bytes = 256}},
                      {1, 2, {b.get(), nullptr}, {.slice_bytes = 256}}};
  CallSignature signature;
  signature.kind = CallKind::kAllReduce;
  signature.dtype = DType::kF32;
  signature.algorithm = Algorithm::kRing;
  signature.count = kCount;
  std::shared_ptr<const Schedule> schedules[2];
  for (int rank = 0; rank < 2; ++rank) {
    SHOAL_ASSERT_OK_AND_ASSIGN(Schedule schedule,
                               BuildSchedule(signature, rank, 2, true));
    schedules[rank] = std::make_shared<const Schedule>(std::move(schedule));
  }
  std::vector<float> data(2 * kConcurrent * kCount);

  const auto run = [&] {
    Engine::OperationId ids[2][kConcurrent];
    for (int rank = 0; rank < 2; ++rank) {
      for (int k = 0; k < kConcurrent; ++k) {
        Call call;
        call.signature = signature;
        call.output = &data[(rank * kConcurrent + k) * kCount];
        call.input = call.output;
        ids[rank][k] = engines[rank].Start(schedules[rank], call);
      }
    }
    for (bool moved = true; moved;) {
      moved = engines[0].Progress();
      moved |= engines[1].Progress();
    }
    bool all_well = true;
    for (int rank = 0; rank < 2; ++rank) {
      for (const Engine::OperationId id : ids[rank]) {
        all_well &= engines[rank].IsDone(id) && engines[rank].result(id).ok();
        engines[rank].Forget(id);
      }
    }
    return all_well;
  };

  for (int i = 0; i < 10; ++i) ASSERT_TRUE(run());
  const std::int64_t before = Allocations();
  EXPECT_GT(before, 0) << "nothing is counted";
  bool all_well = true;
  for (int i = 0; i < 1000; ++i) all_well &= run();
  const std::int64_t after = Allocations();
  EXPECT_TRUE(all_well);
  EXPECT_EQ(after - before, 0);
}

}  // namespace
}  // namespace shoal::internal
