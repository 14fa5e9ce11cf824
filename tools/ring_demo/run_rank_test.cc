// SPDX-License-Identifier: Apache-2.0
//
// All sections, with threads for ranks.

#include "shoal/tools/ring_demo/run_rank.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/in_process_communicator.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tools/ring_demo/all_reduce_sweep.h"
#include "shoal/tools/ring_demo/flags.h"
#include "shoal/tools/ring_demo/pipeline_pass.h"
#include "shoal/tools/ring_demo/report.h"

namespace shoal::ring_demo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Runs `body` on every rank of a world of threads.
void OnAllRanks(int world_size,
                const std::function<void(Communicator*)>& body) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      const std::vector<std::unique_ptr<Communicator>> world,
      InProcessCommunicator::CreateWorld(world_size));
  std::vector<std::thread> threads;
  for (const auto& communicator : world) {
    threads.emplace_back(body, communicator.get());
  }
  for (std::thread& thread : threads) thread.join();
}

Flags SmallFlags() {
  Flags flags;
  flags.layers = 7;
  flags.max_bytes = 4096;
  return flags;
}

class RunSectionsTest : public ::testing::TestWithParam<int> {};

TEST_P(RunSectionsTest, EverythingIsRightAndShown) {
  const int world = GetParam();
  std::vector<Report> reports(world);
  std::vector<std::ostringstream> outputs(world);
  OnAllRanks(world, [&](Communicator* communicator) {
    const int rank = communicator->rank();
    SHOAL_EXPECT_OK(
        RunSections(communicator, SmallFlags(), outputs[rank], &reports[rank]));
  });
  for (int rank = 0; rank < world; ++rank) {
    // Every rank knows all figures, and rank 0 shows them.
    EXPECT_EQ(ReportJson(reports[rank], absl::OkStatus()),
              ReportJson(reports[0], absl::OkStatus()));
    if (rank > 0) {
      EXPECT_THAT(outputs[rank].str(), IsEmpty());
    }
  }
  const Report& report = reports[0];
  EXPECT_EQ(report.ranks.size(), world);
  EXPECT_EQ(report.all_reduces.size(), 6);
  EXPECT_EQ(report.products.size(), 2);
  std::int64_t applied = 0;
  for (const StageFigures& stage : report.pipeline.stages) {
    applied += stage.layers_applied;
  }
  EXPECT_EQ(applied, 7 * report.pipeline.micro_batches);
  for (const AllReduceFigures& figures : report.all_reduces) {
    EXPECT_GE(figures.repetitions, 1);
    EXPECT_GT(figures.seconds, 0);
  }
  EXPECT_THAT(outputs[0].str(),
              AllOf(HasSubstr("Who owns what: 7 layers"),
                    HasSubstr("All-reduce"), HasSubstr("4 KiB"),
                    HasSubstr("Pipeline"), HasSubstr("Tensor parallelism")));
}

INSTANTIATE_TEST_SUITE_P(Worlds, RunSectionsTest,
                         ::testing::Values(1, 2, 3, 4, 5, 8, 11));

TEST(RunRankTest, WritesTheFigures) {
  Flags flags = SmallFlags();
  flags.json = absl::StrCat(::testing::TempDir(), "/figures.json");
  OnAllRanks(2, [&](Communicator* communicator) {
    std::ostringstream out;
    SHOAL_EXPECT_OK(RunRank(communicator, flags, out));
  });
  std::ifstream file(flags.json);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text,
              AllOf(HasSubstr("\"ok\": true"), HasSubstr("\"world_size\": 2"),
                    HasSubstr("\"all_reduces\": [")));
}

TEST(RunRankTest, AFileThatCannotBeWrittenEndsAllRanks) {
  Flags flags = SmallFlags();
  flags.json = "/nowhere/figures.json";
  OnAllRanks(3, [&](Communicator* communicator) {
    std::ostringstream out;
    EXPECT_THAT(RunRank(communicator, flags, out),
                StatusIs(absl::StatusCode::kNotFound,
                         HasSubstr("/nowhere/figures.json")));
  });
}

TEST(RunRankTest, RanksNeedTheSameFlags) {
  OnAllRanks(3, [&](Communicator* communicator) {
    Flags flags = SmallFlags();
    if (communicator->rank() == 1) flags.layers = 8;
    std::ostringstream out;
    EXPECT_THAT(RunRank(communicator, flags, out),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("rank 1 has --layers 8 where rank 0 has "
                                   "--layers 7")));
    EXPECT_THAT(out.str(), IsEmpty());
  });
  OnAllRanks(3, [&](Communicator* communicator) {
    Flags flags = SmallFlags();
    if (communicator->rank() == 2) flags.max_bytes = 8192;
    std::ostringstream out;
    EXPECT_THAT(RunRank(communicator, flags, out),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("rank 2 has --max_bytes 8192 where rank 0 "
                                   "has --max_bytes 4096")));
  });
}

// Has no memory for what it is given.
class NoMemoryBuffer : public std::streambuf {
 protected:
  int_type overflow(int_type) override { throw std::bad_alloc(); }
};

TEST(RunRankTest, NoMemoryOnOneRankEndsAllRanks) {
  OnAllRanks(3, [&](Communicator* communicator) {
    NoMemoryBuffer buffer;
    std::ostream out(&buffer);
    out.exceptions(std::ios::badbit);  // throws on what the buffer throws
    EXPECT_THAT(
        RunRank(communicator, SmallFlags(), out),
        StatusIs(absl::StatusCode::kResourceExhausted,
                 AllOf(HasSubstr("rank 0"), HasSubstr("--max_bytes 4096"))));
  });
}

// A rank that sends other data is found out by all, not only by itself.
TEST(MeasureAllReduceTest, WrongDataOnOneRankIsCounted) {
  constexpr int kWorld = 3;
  OnAllRanks(kWorld, [](Communicator* communicator) {
    // What MeasureAllReduce does, with one element of one rank off by one.
    std::vector<float> vector(100);
    for (std::int64_t i = 0; i < 100; ++i) {
      vector[i] = SweepInput(communicator->rank(), i);
    }
    if (communicator->rank() == 1) vector[99] += 1;
    SHOAL_EXPECT_OK(communicator->AllReduce(BufferOf(absl::MakeSpan(vector)),
                                            ReduceOp::kSum));
    EXPECT_EQ(CountWrongSums(vector, kWorld), 1);
  });
}

}  // namespace
}  // namespace shoal::ring_demo
