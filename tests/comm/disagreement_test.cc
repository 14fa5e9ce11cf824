// SPDX-License-Identifier: Apache-2.0
//
// One rank calls something else than the others: every rank is told so, in this
// call or in the next, with both sides' calls. Never a hang, never a success
// with wrong data. (AllReduce and Broadcast are in failures_test.cc.)
//
// Which two calls meet first is a matter of chance: a rank that has sent its
// part may be in the barrier that follows already.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/timeouts.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

// Room for any call of a case, in a world of eight.
class Caller {
 public:
  Caller(Communicator* communicator, bool is_culprit)
      : communicator_(communicator), is_culprit_(is_culprit) {}

  bool is_culprit() const { return is_culprit_; }
  int world() const { return communicator_->world_size(); }
  int rank() const { return communicator_->rank(); }

  absl::Status Reduce(std::int64_t count, ReduceOp op, int root,
                      Algorithm algorithm = Algorithm::kTree,
                      DType dtype = DType::kF32) {
    return communicator_->Reduce(Input(count, dtype), Output(count, dtype), op,
                                 root, By(algorithm));
  }
  absl::Status Gather(std::int64_t count, int root) {
    return communicator_->Gather(Input(count), Output(count * world()), root);
  }
  absl::Status Scatter(std::int64_t count, int root) {
    return communicator_->Scatter(Input(count * world()), Output(count), root);
  }
  absl::Status AllToAll(std::int64_t count) {
    return communicator_->AllToAll(Input(count * world()),
                                   Output(count * world()));
  }
  absl::Status AllReduce(Algorithm algorithm) {
    return communicator_->AllReduce(Input(7), Output(7), ReduceOp::kSum,
                                    By(algorithm));
  }
  absl::Status AllGatherV(const std::vector<std::int64_t>& counts,
                          Algorithm algorithm) {
    return communicator_->AllGatherV(
        Input(counts[rank()]), Output(SumOf(counts)), counts, By(algorithm));
  }
  absl::Status AllToAllV(const std::vector<std::int64_t>& send,
                         const std::vector<std::int64_t>& recv) {
    return communicator_->AllToAllV(Input(SumOf(send)), send,
                                    Output(SumOf(recv)), recv);
  }
  absl::Status Coalesced(const std::vector<std::int64_t>& counts) {
    std::vector<Buffer> buffers;
    float* at = output_.data();
    for (const std::int64_t count : counts) {
      buffers.push_back({at, count, DType::kF32});
      at += count;
    }
    return communicator_->AllReduceCoalesced(buffers, ReduceOp::kSum);
  }
  absl::Status AllGather(std::int64_t count) {
    return communicator_->AllGather(Input(count), Output(count * world()));
  }
  absl::Status ReduceScatter(ReduceOp op, DType dtype = DType::kF32) {
    return communicator_->ReduceScatter(Input(5 * world(), dtype),
                                        Output(5, dtype), op);
  }
  absl::Status Broadcast(int root,
                         Algorithm algorithm = Algorithm::kBinomialTree) {
    return communicator_->Broadcast(Output(5), root, By(algorithm));
  }
  absl::Status AllReduceIn(WireFormat wire) {
    CallOptions options = By(Algorithm::kRing);
    options.wire = wire;
    return communicator_->AllReduce(Input(64), Output(64), ReduceOp::kSum,
                                    options);
  }
  absl::Status Barrier() { return communicator_->Barrier(); }

 private:
  static std::int64_t SumOf(const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
  static CallOptions By(Algorithm algorithm) {
    CallOptions options;
    options.algorithm = algorithm;
    return options;
  }
  ConstBuffer Input(std::int64_t count, DType dtype = DType::kF32) const {
    return {input_.data(), count, dtype};
  }
  Buffer Output(std::int64_t count, DType dtype = DType::kF32) {
    return {output_.data(), count, dtype};
  }

  Communicator* const communicator_;
  const bool is_culprit_;
  std::vector<float> input_ = std::vector<float>(200, 1.0F);
  std::vector<float> output_ = std::vector<float>(200, 0.0F);
};

struct Case {
  const char* name;
  // What is in the message; it has both sides' calls.
  std::vector<std::string> words;
  std::function<absl::Status(Caller& caller)> call;
  // The culprit may hear from nobody, waiting for a root that has gone on: then
  // it is called the one that is behind, at the time-out.
  bool may_be_behind = false;
};

const std::vector<Case>& Cases() {
  constexpr Algorithm kTree = Algorithm::kTree;
  constexpr ReduceOp kSum = ReduceOp::kSum;
  static const auto* const cases = new std::vector<Case>{
      {"ReduceOp",
       {"sum", "max"},
       [](Caller& c) {
         return c.Reduce(5, c.is_culprit() ? ReduceOp::kMax : kSum, 0);
       }},
      {"ReduceType",
       {"f32 x 5", "i32 x 5"},
       [](Caller& c) {
         return c.Reduce(5, kSum, 0, kTree,
                         c.is_culprit() ? DType::kI32 : DType::kF32);
       }},
      {"ReduceCount",
       {"f32 x 5", "f32 x 0"},
       [](Caller& c) { return c.Reduce(c.is_culprit() ? 0 : 5, kSum, 0); }},
      {"ReduceAlgorithm",
       {"Reduce", " called "},
       [](Caller& c) {
         return c.Reduce(5, kSum, 0,
                         c.is_culprit() ? Algorithm::kChain : kTree);
       }},
      {"ReduceRoot",
       {"Reduce"},
       [](Caller& c) { return c.Reduce(5, kSum, c.is_culprit() ? 1 : 0); }},
      {"GatherCount",
       {"f32 x 5", "f32 x 6"},
       [](Caller& c) { return c.Gather(c.is_culprit() ? 6 : 5, 0); }},
      {"GatherRoot",
       {"Gather"},
       [](Caller& c) { return c.Gather(5, c.is_culprit() ? 1 : 0); }},
      {"ScatterCount",
       {"f32 x 5", "f32 x 6"},
       [](Caller& c) { return c.Scatter(c.is_culprit() ? 6 : 5, 0); }},
      {"ScatterRoot",
       {"Scatter"},
       [](Caller& c) { return c.Scatter(5, c.is_culprit() ? 1 : 0); },
       /*may_be_behind=*/true},
      {"AllToAllCount",
       {"f32 x 5", "f32 x 6"},
       [](Caller& c) { return c.AllToAll(c.is_culprit() ? 6 : 5); }},
      {"AllReduceAlgorithm",
       {"one-shot", "direct"},
       [](Caller& c) {
         return c.AllReduce(c.is_culprit() ? Algorithm::kOneShot
                                           : Algorithm::kDirect);
       }},
      {"AllGatherVRing",
       {"AllGatherV", " in parts ", " + "},
       [](Caller& c) {
         std::vector<std::int64_t> counts(c.world(), 3);
         if (c.is_culprit()) {
           // The same sum, otherwise distributed.
           ++counts[0];
           --counts[1];
         }
         return c.AllGatherV(counts, Algorithm::kRing);
       }},
      {"AllToAllVCounts",
       {"AllToAllV", " elements where rank ", "receives"},
       [](Caller& c) {
         std::vector<std::int64_t> send(c.world(), 3);
         // More than its neighbour reckons with.
         if (c.is_culprit()) ++send[(c.rank() + 1) % c.world()];
         return c.AllToAllV(send, std::vector<std::int64_t>(c.world(), 3));
       }},
      {"CoalescedSplit",
       {"AllReduce", " in parts ", " + "},
       [](Caller& c) {
         return c.Coalesced(c.is_culprit() ? std::vector<std::int64_t>{4, 3}
                                           : std::vector<std::int64_t>{3, 4});
       }},
      {"AllGatherCount",
       {"AllGather", "f32 x 5", "f32 x 6"},
       [](Caller& c) { return c.AllGather(c.is_culprit() ? 6 : 5); }},
      {"ReduceScatterOp",
       {"ReduceScatter", "sum", "max"},
       [](Caller& c) {
         return c.ReduceScatter(c.is_culprit() ? ReduceOp::kMax : kSum);
       }},
      {"ReduceScatterType",
       {"ReduceScatter", "f32 x 5", "i32 x 5"},
       [](Caller& c) {
         return c.ReduceScatter(kSum,
                                c.is_culprit() ? DType::kI32 : DType::kF32);
       }},
      {"BroadcastRoot",
       {"Broadcast"},
       [](Caller& c) { return c.Broadcast(c.is_culprit() ? 1 : 0); },
       /*may_be_behind=*/true},
      {"BroadcastAlgorithm",
       {"Broadcast", " called "},
       [](Caller& c) {
         return c.Broadcast(
             0, c.is_culprit() ? Algorithm::kChain : Algorithm::kBinomialTree);
       }},
      {"WireFormat",
       {"AllReduce", "bf16", "q8_0"},
       [](Caller& c) {
         return c.AllReduceIn(c.is_culprit() ? WireFormat::kQ8_0
                                             : WireFormat::kBF16);
       }},
      {"OrderOfSymmetricCalls",
       {"AllGather", "AllReduce", " called "},
       [](Caller& c) {
         const auto reduce = [&] { return c.AllReduce(Algorithm::kDirect); };
         const absl::Status first = c.is_culprit() ? c.AllGather(7) : reduce();
         if (!first.ok()) return first;
         return c.is_culprit() ? reduce() : c.AllGather(7);
       }},
      {"Order",
       {" called "},
       [](Caller& c) {
         const absl::Status first =
             c.is_culprit() ? c.AllToAll(5) : c.Reduce(5, kSum, 0);
         if (!first.ok()) return first;
         return c.is_culprit() ? c.Reduce(5, kSum, 0) : c.AllToAll(5);
       }},
  };
  return *cases;
}

// "case culprit".
SHOAL_RANK_BODY(Disagrees) {
  const std::vector<std::string> argument =
      absl::StrSplit(context.argument, ' ');
  std::size_t index = 0;
  int culprit = 0;
  if (argument.size() != 2 || !absl::SimpleAtoi(argument[0], &index) ||
      !absl::SimpleAtoi(argument[1], &culprit)) {
    return absl::InvalidArgumentError(context.argument);
  }
  // Where all wait for one another, it is found out at the time-out.
  Timeouts timeouts = RankContext::SlowBuildTimeouts();
  timeouts.operation = absl::Seconds(4);
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join(timeouts));
  Caller caller(communicator.get(), context.rank == culprit);
  const Case& test = Cases()[index];
  absl::Status status = test.call(caller);
  // Whoever heard nothing in this call hears it in the next.
  if (status.ok()) status = caller.Barrier();
  if (test.may_be_behind && absl::IsDeadlineExceeded(status)) {
    return ExpectStatus(status, absl::StatusCode::kDeadlineExceeded,
                        test.words);
  }
  return ExpectStatus(status, absl::StatusCode::kFailedPrecondition,
                      test.words);
}

class DisagreementTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(DisagreementTest, IsToldToAll) {
  for (const int world : {2, 3, 5}) {
    for (const int culprit : {0, world - 1}) {
      EXPECT_TRUE(
          WorldSucceeds("Disagrees", world,
                        {.argument = absl::StrCat(GetParam(), " ", culprit)}))
          << "world " << world << ", culprit " << culprit;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DisagreementTest,
                         ::testing::Range(std::size_t{0}, Cases().size()),
                         [](const auto& info) {
                           return std::string(Cases()[info.param].name);
                         });

}  // namespace
}  // namespace shoal::tests
