// SPDX-License-Identifier: Apache-2.0
//
// Every collective of the table, on ranks that are threads.

#include "shoal/tools/comm_bench/measure.h"

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/call.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/in_process_communicator.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tools/comm_bench/collectives.h"
#include "shoal/tools/comm_bench/flags.h"
#include "shoal/tools/comm_bench/pattern.h"
#include "shoal/tools/comm_bench/results.h"

namespace shoal::comm_bench {
namespace {

MeasureOptions Quick() {
  MeasureOptions options;
  options.iterations = 2;
  options.warmups = 1;
  return options;
}

// What each rank of a world gets.
std::vector<absl::StatusOr<Row>> RunWorld(int world,
                                          const Collective& collective,
                                          std::int64_t bytes,
                                          const MeasureOptions& options) {
  auto communicators = InProcessCommunicator::CreateWorld(world);
  EXPECT_THAT(communicators, IsOk());
  const Pattern pattern(options.dtype, options.op, world, options.wire);
  std::vector<absl::StatusOr<Row>> rows(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      rows[rank] = Measure((*communicators)[rank].get(), collective, bytes,
                           options, pattern);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return rows;
}

std::vector<ReduceOp> OpsAndTheUsers() {
  std::vector<ReduceOp> ops(std::begin(kAllReduceOps), std::end(kAllReduceOps));
  ops.push_back(ReduceOp::kUser);
  return ops;
}

void ExpectRight(const Timing& timing) {
  EXPECT_EQ(timing.wrong_elements, 0);
  EXPECT_EQ(timing.iterations, 2);
  EXPECT_GT(timing.seconds, 0);
}

TEST(MeasureTest, EveryCollectiveIsRight) {
  for (const Collective& collective : AllCollectives()) {
    for (int world = collective.min_world_size; world <= 5; ++world) {
      for (const std::int64_t bytes : {0, 4, 20, 4096, 100'003}) {
        SCOPED_TRACE(collective.name);
        MeasureOptions options = Quick();
        options.root = collective.has_root ? world - 1 : 0;
        options.unaligned = bytes == 4096;
        for (const auto& row : RunWorld(world, collective, bytes, options)) {
          SHOAL_ASSERT_OK(row.status());
          EXPECT_LE(row->bytes, bytes);
          EXPECT_EQ(row->out_of_place.has_value(), collective.out_of_place);
          EXPECT_EQ(row->in_place.has_value(), collective.in_place);
          if (row->out_of_place.has_value()) ExpectRight(*row->out_of_place);
          if (row->in_place.has_value()) ExpectRight(*row->in_place);
        }
      }
    }
  }
}

TEST(MeasureTest, EveryTypeAndReductionIsRight) {
  const Collective& collective = **FindCollective("all_reduce");
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : OpsAndTheUsers()) {
      if (!ReduceOpTakes(op, dtype)) continue;
      MeasureOptions options = Quick();
      options.dtype = dtype;
      options.op = op;
      for (const auto& row : RunWorld(3, collective, 50'000, options)) {
        SHOAL_ASSERT_OK(row.status());
        EXPECT_EQ(row->in_place->wrong_elements, 0) << dtype << " " << op;
        EXPECT_EQ(row->out_of_place->wrong_elements, 0) << dtype << " " << op;
      }
    }
  }
}

// The tolerance is wide enough for what each algorithm rounds.
TEST(MeasureTest, EveryWireFormatIsRight) {
  for (const Collective& collective : AllCollectives()) {
    if (!collective.has_op) continue;
    for (const WireFormat wire :
         {WireFormat::kF32, WireFormat::kBF16, WireFormat::kQ8_0}) {
      MeasureOptions options = Quick();
      options.wire = wire;
      options.dtype = wire == WireFormat::kF32 ? DType::kF16 : DType::kF32;
      std::vector<Algorithm> algorithms = {Algorithm::kAuto};
      if (collective.kind == CallKind::kAllReduce) {
        algorithms = {Algorithm::kRing, Algorithm::kRecursiveDoubling,
                      Algorithm::kDirect, Algorithm::kOneShot};
      }
      for (const ReduceOp op : OpsAndTheUsers()) {
        if (!ReductionTakes(op, options.dtype, wire)) continue;
        options.op = op;
        for (const Algorithm algorithm : algorithms) {
          options.algorithm = algorithm;
          for (const int world : {1, 2, 5, 8}) {
            for (const auto& row :
                 RunWorld(world, collective, 30'000, options)) {
              SHOAL_ASSERT_OK(row.status());
              EXPECT_EQ(row->in_place->wrong_elements, 0)
                  << collective.name << " " << op << " " << wire << " " << world
                  << " " << algorithm;
            }
          }
        }
      }
    }
  }
}

TEST(MeasureTest, WrongElementsOfAllRanksCount) {
  // Calls an all-gather what leaves the other ranks' parts untouched.
  Collective broken = **FindCollective("all_gather");
  broken.run = [](const Exercise& e) { return e.communicator->Barrier(); };
  constexpr std::int64_t kBytes = 4000;
  const auto rows = RunWorld(2, broken, kBytes, Quick());
  for (const auto& row : rows) {
    SHOAL_ASSERT_OK(row.status());
    // In place a rank's own part is there. Few elements are 0 by right.
    EXPECT_GT(*row->in_place->wrong_elements, kBytes / 4 * 9 / 10);
    EXPECT_LE(*row->in_place->wrong_elements, kBytes / 4);
    EXPECT_GT(*row->out_of_place->wrong_elements, 2 * kBytes / 4 * 9 / 10);
  }
}

TEST(MeasureTest, StringsOfAnotherLengthAreWrongAltogether) {
  Collective broken = **FindCollective("broadcast_string");
  broken.run = [](const Exercise& e) {
    if (e.communicator->rank() != e.root) e.text->assign("short");
    return absl::OkStatus();
  };
  MeasureOptions options = Quick();
  options.dtype = DType::kU8;
  for (const auto& row : RunWorld(3, broken, 100, options)) {
    SHOAL_ASSERT_OK(row.status());
    EXPECT_EQ(row->in_place->wrong_elements, 200);
  }
}

TEST(MeasureTest, TakesOnlyTheHalfAndTheChecksThatAreAskedFor) {
  MeasureOptions options = Quick();
  options.halves = Halves::kInPlace;
  options.checks = 0;
  options.warmups = 0;
  options.iterations = 0;
  const auto rows =
      RunWorld(2, **FindCollective("all_reduce"), 1 << 20, options);
  for (const auto& row : rows) {
    SHOAL_ASSERT_OK(row.status());
    EXPECT_FALSE(row->out_of_place.has_value());
    EXPECT_FALSE(row->in_place->wrong_elements.has_value());
    EXPECT_GE(row->in_place->iterations, 1);
    EXPECT_LE(row->in_place->iterations, 1000);
    EXPECT_EQ(row->in_place->iterations, rows[0]->in_place->iterations);
    EXPECT_DOUBLE_EQ(row->in_place->algorithm_bandwidth,
                     (1 << 20) / row->in_place->seconds);
    EXPECT_DOUBLE_EQ(row->in_place->bus_bandwidth,
                     row->in_place->algorithm_bandwidth);
  }
}

TEST(MeasureTest, ErrorsAreTheCommunicators) {
  Collective failing = **FindCollective("barrier");
  failing.run = [](const Exercise&) { return absl::AbortedError("no"); };
  for (const auto& row : RunWorld(2, failing, 0, Quick())) {
    EXPECT_THAT(row.status(), StatusIs(absl::StatusCode::kAborted));
  }
}

}  // namespace
}  // namespace shoal::comm_bench
