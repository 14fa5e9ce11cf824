// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/call_log.h"

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/comm/call.h"
#include "shoal/comm/comm_stats.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/trace_event.h"

namespace shoal::internal {
namespace {

Call Barrier() { return Call(); }

Call Broadcast(std::int64_t count) {
  Call call;
  call.signature.kind = CallKind::kBroadcast;
  call.signature.dtype = DType::kF32;
  call.signature.count = count;
  return call;
}

CallRecord RecordOf(const Call& call, std::uint64_t sequence) {
  CallRecord record;
  record.call = &call;
  record.sequence = sequence;
  record.bytes = call.signature.count * 4;
  record.begin_ns = 1000 * static_cast<std::int64_t>(sequence);
  record.end_ns = record.begin_ns + 700;
  record.waiting_ns = 200;
  return record;
}

TEST(CallLogTest, CountsByKind) {
  CallLog log;
  const Call barrier = Barrier();
  const Call broadcast = Broadcast(5);
  log.Add(RecordOf(barrier, 1));
  log.Add(RecordOf(broadcast, 2));
  CallRecord failed = RecordOf(broadcast, 3);
  failed.succeeded = false;
  log.Add(failed);

  const CommStats stats = log.stats();
  ASSERT_EQ(stats.by_kind.size(), 2u);
  const OperationStats& broadcasts = stats.by_kind.at(CallKind::kBroadcast);
  EXPECT_EQ(broadcasts.succeeded, 1);
  EXPECT_EQ(broadcasts.failed, 1);
  EXPECT_EQ(broadcasts.bytes, 40);
  EXPECT_EQ(broadcasts.elapsed, absl::Nanoseconds(1400));
  EXPECT_EQ(broadcasts.waiting, absl::Nanoseconds(400));
  EXPECT_EQ(stats.by_kind.at(CallKind::kBarrier).succeeded, 1);
}

TEST(CallLogTest, TracesOnlyWhenAskedAndOnlySoMuch) {
  CallLog log;
  const Call call = Broadcast(5);
  log.Add(RecordOf(call, 1));
  EXPECT_TRUE(log.TakeTrace().empty());

  log.StartTrace(/*max_events=*/2);
  for (int i = 2; i <= 4; ++i) log.Add(RecordOf(call, i));
  const std::vector<TraceEvent> events = log.TakeTrace();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, CallKind::kBroadcast);
  EXPECT_EQ(events[0].call, call.ToString() + " #2");
  EXPECT_EQ(events[0].bytes, 20);
  EXPECT_EQ(events[0].begin_ns, 2000);
  EXPECT_EQ(events[0].end_ns, 2700);
  EXPECT_EQ(events[0].waiting_ns, 200);
  EXPECT_TRUE(events[0].succeeded);
  EXPECT_EQ(events[1].begin_ns, 3000);

  // The trace has ended; the counting goes on.
  log.Add(RecordOf(call, 5));
  EXPECT_TRUE(log.TakeTrace().empty());
  EXPECT_EQ(log.stats().Total().succeeded, 5);
}

}  // namespace
}  // namespace shoal::internal
