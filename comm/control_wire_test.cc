// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/control_wire.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/control.pb.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/frame.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ControlWireTest, AbortsSurvive) {
  ControlMessage sent;
  sent.kind = ControlKind::kAbort;
  sent.culprit = -1;
  sent.code = static_cast<int>(absl::StatusCode::kUnavailable);
  sent.text = "rank 2 died";
  SHOAL_ASSERT_OK_AND_ASSIGN(const ControlMessage got,
                             DecodeControl(EncodeControl(sent)));
  EXPECT_EQ(got.kind, ControlKind::kAbort);
  EXPECT_EQ(got.culprit, -1);
  EXPECT_EQ(got.code, sent.code);
  EXPECT_EQ(got.text, sent.text);
}

TEST(ControlWireTest, GoodbyesAndQueriesSurvive) {
  ControlMessage sent;
  sent.kind = ControlKind::kGoodbye;
  SHOAL_ASSERT_OK_AND_ASSIGN(ControlMessage got,
                             DecodeControl(EncodeControl(sent)));
  EXPECT_EQ(got.kind, ControlKind::kGoodbye);
  sent.kind = ControlKind::kQuery;
  sent.query = 0xfedcba9876543210;
  SHOAL_ASSERT_OK_AND_ASSIGN(got, DecodeControl(EncodeControl(sent)));
  EXPECT_EQ(got.kind, ControlKind::kQuery);
  EXPECT_EQ(got.query, sent.query);
}

TEST(ControlWireTest, AnswersSurvive) {
  ControlMessage sent;
  sent.kind = ControlKind::kAnswer;
  sent.query = 3;
  sent.report.entered = 17;
  sent.report.last_completed = 16;
  sent.report.in_operation = true;
  sent.report.collective = false;
  sent.report.operation = "Barrier #17";
  sent.report.awaiting = {4, 0};
  SHOAL_ASSERT_OK_AND_ASSIGN(const ControlMessage got,
                             DecodeControl(EncodeControl(sent)));
  EXPECT_EQ(got.kind, ControlKind::kAnswer);
  EXPECT_EQ(got.query, 3u);
  EXPECT_EQ(got.report.entered, 17u);
  EXPECT_EQ(got.report.last_completed, 16u);
  EXPECT_TRUE(got.report.in_operation);
  EXPECT_FALSE(got.report.collective);
  EXPECT_EQ(got.report.operation, "Barrier #17");
  EXPECT_THAT(got.report.awaiting, ElementsAre(4, 0));
}

TEST(ControlWireTest, WhatCannotTravelIsCutOrReplaced) {
  ControlMessage sent;
  sent.kind = ControlKind::kAbort;
  sent.text = "b\xff" + std::string(100000, 'x');
  const std::string payload = EncodeControl(sent);
  EXPECT_LT(payload.size(), kMaxStrangerPayload);
  SHOAL_ASSERT_OK_AND_ASSIGN(ControlMessage got, DecodeControl(payload));
  EXPECT_EQ(got.text.size(), ControlMessage::kMaxTextBytes);
  EXPECT_EQ(got.text.substr(0, 3), "b?x");
  sent = ControlMessage();
  sent.kind = ControlKind::kAnswer;
  sent.report.awaiting.assign(100000, 1 << 30);
  EXPECT_LT(EncodeControl(sent).size(), kMaxStrangerPayload);
}

TEST(ControlWireTest, RefusesWhatNoRankSends) {
  EXPECT_THAT(DecodeControl("\xff\xff"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("parsed")));
  EXPECT_THAT(DecodeControl(""),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no kind")));
  comm::ControlFrame frame;
  frame.mutable_abort()->set_text(std::string(5000, 'x'));
  EXPECT_THAT(DecodeControl(frame.SerializeAsString()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("too long")));
  frame.Clear();
  for (int i = 0; i < 2000; ++i) frame.mutable_answer()->add_awaiting(i);
  EXPECT_THAT(DecodeControl(frame.SerializeAsString()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("too long")));
}

}  // namespace
}  // namespace shoal::internal
