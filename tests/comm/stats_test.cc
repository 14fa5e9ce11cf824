// SPDX-License-Identifier: Apache-2.0
//
// What communicators count, and the trace of all ranks, between processes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/comm_stats.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/pending_operation.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/trace.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

constexpr std::int64_t kCount = 1000;

// Of every rank: 3 AllReduces, of which 2 are started, a Barrier, and from
// world 2 on a Send and a Recv.
absl::Status MakeCalls(Communicator* communicator) {
  const int rank = communicator->rank();
  const int world = communicator->world_size();
  std::vector<float> a(kCount, 1.0F);
  std::vector<float> b(kCount, 2.0F);
  const Buffer first = BufferOf(absl::MakeSpan(a));
  const Buffer second = BufferOf(absl::MakeSpan(b));
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(first, ReduceOp::kSum));
  {
    SHOAL_ASSIGN_OR_RETURN(PendingOperation one,
                           communicator->StartAllReduce(first, ReduceOp::kMax));
    SHOAL_ASSIGN_OR_RETURN(PendingOperation other, communicator->StartAllReduce(
                                                       second, ReduceOp::kMax));
    SHOAL_RETURN_IF_ERROR(other.Wait());
    SHOAL_RETURN_IF_ERROR(one.Wait());
  }
  SHOAL_RETURN_IF_ERROR(communicator->Barrier());
  if (world == 1) return absl::OkStatus();
  return communicator->SendRecv(first, (rank + 1) % world, second,
                                (rank + world - 1) % world);
}

absl::Status ExpectCounted(const CommStats& stats, CallKind kind,
                           std::int64_t calls, std::int64_t bytes) {
  const auto found = stats.by_kind.find(kind);
  const OperationStats counted =
      found == stats.by_kind.end() ? OperationStats() : found->second;
  if (counted.succeeded == calls && counted.failed == 0 &&
      counted.bytes == bytes && counted.waiting >= absl::ZeroDuration() &&
      counted.moving() >= absl::ZeroDuration() &&
      (calls == 0 || counted.elapsed > absl::ZeroDuration())) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(CallKindName(kind), ", expected ",
                                          calls, " calls of ", bytes,
                                          " bytes:\n", stats.ToString()));
}

SHOAL_RANK_BODY(Counts) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  SHOAL_RETURN_IF_ERROR(MakeCalls(communicator.get()));
  // Refused, and so not counted.
  if (communicator->Broadcast({}, /*root=*/-1).ok()) {
    return absl::InternalError("a root of -1 was accepted");
  }
  const CommStats stats = communicator->stats();
  constexpr std::int64_t kBytes = kCount * 4;
  SHOAL_RETURN_IF_ERROR(
      ExpectCounted(stats, CallKind::kAllReduce, 3, 3 * kBytes));
  SHOAL_RETURN_IF_ERROR(ExpectCounted(stats, CallKind::kBarrier, 1, 0));
  SHOAL_RETURN_IF_ERROR(ExpectCounted(stats, CallKind::kBroadcast, 0, 0));
  const int messages = communicator->world_size() > 1 ? 1 : 0;
  SHOAL_RETURN_IF_ERROR(
      ExpectCounted(stats, CallKind::kSend, messages, messages * kBytes));
  return ExpectCounted(stats, CallKind::kRecv, messages, messages * kBytes);
}

std::int64_t CountOf(absl::string_view needle, absl::string_view text) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(needle); at != absl::string_view::npos;
       at = text.find(needle, at + 1)) {
    ++count;
  }
  return count;
}

SHOAL_RANK_BODY(Traces) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  SHOAL_RETURN_IF_ERROR(communicator->Barrier());  // before the trace
  communicator->StartTrace();
  SHOAL_RETURN_IF_ERROR(MakeCalls(communicator.get()));
  SHOAL_ASSIGN_OR_RETURN(const std::string trace,
                         GatherTrace(communicator.get()));
  if (context.rank != 0) {
    return trace.empty() ? absl::OkStatus()
                         : absl::InternalError("only rank 0 has the trace");
  }
  const int world = communicator->world_size();
  const std::int64_t events = CountOf("\"call\":", trace);
  if (events != world * (world == 1 ? 4 : 6)) {
    return absl::InternalError(absl::StrCat(events, " events in\n", trace));
  }
  for (int rank = 0; rank < world; ++rank) {
    if (CountOf(absl::StrCat("\"rank ", rank, "\""), trace) != 1) {
      return absl::InternalError(absl::StrCat("rank ", rank, " is missing"));
    }
  }
  return absl::OkStatus();
}

// Failed calls are counted as such, whichever way they ended.
SHOAL_RANK_BODY(CountsFailures) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  SHOAL_RETURN_IF_ERROR(communicator->Barrier());
  if (context.rank == 1) communicator->Abort(absl::AbortedError("enough"));
  if (communicator->Barrier().ok()) {
    return absl::InternalError("a barrier without rank 1 succeeded");
  }
  const CommStats stats = communicator->stats();
  const OperationStats barriers = stats.by_kind.at(CallKind::kBarrier);
  // One that finds the job closed has not been made.
  if (barriers.succeeded != 1 || barriers.failed > 1 ||
      (context.rank == 1 && barriers.failed != 0)) {
    return absl::InternalError(stats.ToString());
  }
  return absl::OkStatus();
}

class StatsTest : public testing::TestWithParam<int> {};

TEST_P(StatsTest, Counts) { EXPECT_TRUE(WorldSucceeds("Counts", GetParam())); }

TEST_P(StatsTest, Traces) { EXPECT_TRUE(WorldSucceeds("Traces", GetParam())); }

INSTANTIATE_TEST_SUITE_P(Worlds, StatsTest, testing::Range(1, 9));

TEST(StatsFailureTest, CountsFailures) {
  EXPECT_TRUE(WorldSucceeds("CountsFailures", 3));
}

}  // namespace
}  // namespace shoal::tests
