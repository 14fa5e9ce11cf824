// SPDX-License-Identifier: Apache-2.0
//
// A program of a repository that vendors Shoal: two ranks, which are threads,
// say which layers they own and add up a number. Its last line is
// "vendoring: OK".

#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "comm/communicator.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/in_process_communicator.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/partition/layer_split.h"
#include "shoal/partition/plan_json.h"

namespace {

// Both headers were found, and each gave its own class.
static_assert(!std::is_same_v<Communicator, shoal::Communicator>);

// The mark of third_party/abseil.bzl can come through Shoal's targets only.
#if defined(ABSEIL_OF_THE_OUTER_REPOSITORY)
constexpr char kAbseil[] = "the outer repository's";
#else
constexpr char kAbseil[] = "another";
#endif

constexpr int kWorldSize = 2;
constexpr std::int64_t kLayers = 7;

// Prints the plan; returns whether every rank has the layers that it should,
// and still has them after a trip through protobuf and JSON.
bool ShowPlan() {
  const auto split = shoal::LayerSplit::Even(kLayers, kWorldSize);
  if (!split.ok()) {
    std::printf("%s\n", split.status().ToString().c_str());
    return false;
  }
  std::printf("plan: %s\n", split->ToString().c_str());
  const auto json = shoal::PlanToJson(*split);
  if (!json.ok()) {
    std::printf("%s\n", json.status().ToString().c_str());
    return false;
  }
  const auto read = shoal::PlanFromJson<shoal::LayerSplit>(*json);
  return split->counts() == std::vector<std::int64_t>{3, 4} && read.ok() &&
         *read == *split;
}

// Adds up rank + 1 over the ranks. Returns whether each got the sum.
bool AddUp() {
  const auto world = shoal::InProcessCommunicator::CreateWorld(kWorldSize);
  if (!world.ok()) {
    std::printf("%s\n", world.status().ToString().c_str());
    return false;
  }
  std::int32_t sums[kWorldSize];
  bool ok[kWorldSize] = {};
  std::vector<std::thread> threads;
  for (const std::unique_ptr<shoal::Communicator>& communicator : *world) {
    threads.emplace_back([&communicator, &sums, &ok] {
      const int rank = communicator->rank();
      sums[rank] = rank + 1;
      ok[rank] = communicator
                     ->AllReduce({&sums[rank], 1, shoal::DType::kI32},
                                 shoal::ReduceOp::kSum)
                     .ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("sums: %d %d\n", sums[0], sums[1]);
  return ok[0] && ok[1] && sums[0] == 3 && sums[1] == 3;
}

}  // namespace

int main() {
  std::printf("own communicator: %s\n", Communicator::WhatItIs());
  std::printf("abseil: %s\n", kAbseil);
  if (!ShowPlan() || !AddUp()) return 1;
  std::printf("vendoring: OK\n");
  return 0;
}
