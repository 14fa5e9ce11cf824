// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/trace.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_log.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/in_process_communicator.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/trace_document.pb.h"

namespace shoal::internal {
namespace {

using ::testing::StartsWith;

TraceDocument Parse(const std::string& json) {
  TraceDocument document;
  // Fields that are not known are errors.
  const auto status =
      google::protobuf::util::JsonStringToMessage(json, &document);
  EXPECT_TRUE(status.ok()) << status.ToString() << json;
  return document;
}

TraceEvent Event(std::int64_t begin_ns, std::int64_t end_ns) {
  TraceEvent event;
  event.kind = CallKind::kBarrier;
  event.call = "Barrier(dissemination) #1";
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  return event;
}

TEST(TraceToJsonTest, BringsClocksTogetherAndBeginsAtZero) {
  std::vector<RankTrace> traces(2);
  traces[0].events = {Event(5'000, 7'000)};
  traces[1].events = {Event(1'000'500, 1'002'000)};
  traces[1].offset_ns = -996'000;
  const TraceDocument document = Parse(TraceToJson(traces));
  ASSERT_EQ(document.trace_events_size(), 4);
  EXPECT_EQ(document.trace_events(0).ph(), "M");
  EXPECT_EQ(document.trace_events(0).args().name(), "rank 0");
  EXPECT_EQ(document.trace_events(1).ph(), "X");
  EXPECT_EQ(document.trace_events(1).ts(), 0.5);
  EXPECT_EQ(document.trace_events(1).dur(), 2);
  EXPECT_EQ(document.trace_events(3).pid(), 1);
  EXPECT_EQ(document.trace_events(3).ts(), 0);
  EXPECT_EQ(document.trace_events(3).dur(), 1.5);
}

TEST(TraceToJsonTest, CallsThatOverlapLieSideBySide) {
  std::vector<RankTrace> traces(1);
  // In the order of their ends, as they come.
  traces[0].events = {Event(2, 4), Event(0, 10), Event(5, 12), Event(12, 13)};
  const TraceDocument document = Parse(TraceToJson(traces));
  ASSERT_EQ(document.trace_events_size(), 5);
  EXPECT_EQ(document.trace_events(1).tid(), 0);  // 0 to 10
  EXPECT_EQ(document.trace_events(2).tid(), 1);  // 2 to 4
  EXPECT_EQ(document.trace_events(3).tid(), 1);  // 5 to 12
  EXPECT_EQ(document.trace_events(4).tid(), 0);  // 12 to 13
}

TEST(TraceToJsonTest, NothingIsADocumentToo) {
  EXPECT_EQ(Parse(TraceToJson({})).trace_events_size(), 0);
}

TEST(GatherTraceTest, HasTheCallsOfAllRanks) {
  constexpr int kWorldSize = 3;
  SHOAL_ASSERT_OK_AND_ASSIGN(const auto world,
                             InProcessCommunicator::CreateWorld(kWorldSize));
  std::vector<absl::StatusOr<std::string>> traces(kWorldSize);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kWorldSize; ++rank) {
    ranks.emplace_back([&world, &traces, rank] {
      Communicator* const communicator = world[rank].get();
      communicator->StartTrace();
      std::vector<float> data(5, 1);
      SHOAL_EXPECT_OK(communicator->AllReduce(BufferOf(absl::MakeSpan(data)),
                                              ReduceOp::kSum));
      SHOAL_EXPECT_OK(communicator->Barrier());
      traces[rank] = GatherTrace(communicator);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& trace : traces) SHOAL_ASSERT_OK(trace.status());
  EXPECT_EQ(*traces[1], "");
  EXPECT_EQ(*traces[2], "");

  const TraceDocument document = Parse(*traces[0]);
  std::map<int, std::vector<TraceDocumentEvent>> by_rank;
  for (const TraceDocumentEvent& event : document.trace_events()) {
    if (event.ph() == "X") by_rank[event.pid()].push_back(event);
  }
  ASSERT_EQ(by_rank.size(), 3u);
  for (const auto& [rank, events] : by_rank) {
    ASSERT_EQ(events.size(), 2u) << rank;
    EXPECT_EQ(events[0].name(), "AllReduce");
    EXPECT_THAT(events[0].args().call(), StartsWith("AllReduce(f32 x 5, sum"));
    EXPECT_EQ(events[0].args().bytes(), 20);
    EXPECT_TRUE(events[0].args().succeeded());
    EXPECT_EQ(events[1].name(), "Barrier");
    EXPECT_GE(events[0].ts(), 0);
    EXPECT_GE(events[1].ts(), events[0].ts() + events[0].dur());
    EXPECT_LE(events[0].args().waiting_us(), events[0].dur());
  }
}

}  // namespace
}  // namespace shoal::internal
