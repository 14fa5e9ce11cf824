// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/control_wire.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/control.pb.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/failure_domain.h"

namespace shoal::internal {
namespace {

// More ranks than these are not worth naming.
constexpr int kMaxAwaiting = 1024;

std::string CutText(absl::string_view text) {
  return WireText(text, ControlMessage::kMaxTextBytes);
}

void EncodeReport(const OperationReport& report, comm::Answer* answer) {
  answer->set_entered(report.entered);
  answer->set_last_completed(report.last_completed);
  answer->set_in_operation(report.in_operation);
  answer->set_collective(report.collective);
  answer->set_operation(CutText(report.operation));
  for (const int rank : report.awaiting) {
    if (answer->awaiting_size() == kMaxAwaiting) break;
    answer->add_awaiting(rank);
  }
}

OperationReport DecodeReport(const comm::Answer& answer) {
  OperationReport report;
  report.entered = answer.entered();
  report.last_completed = answer.last_completed();
  report.in_operation = answer.in_operation();
  report.collective = answer.collective();
  report.operation = answer.operation();
  report.awaiting.assign(answer.awaiting().begin(), answer.awaiting().end());
  return report;
}

}  // namespace

std::string EncodeControl(const ControlMessage& message) {
  comm::ControlFrame frame;
  switch (message.kind) {
    case ControlKind::kAbort:
      frame.mutable_abort()->set_culprit(message.culprit);
      frame.mutable_abort()->set_code(message.code);
      frame.mutable_abort()->set_text(CutText(message.text));
      break;
    case ControlKind::kGoodbye:
      frame.mutable_goodbye();
      break;
    case ControlKind::kQuery:
      frame.mutable_query()->set_id(message.query);
      frame.mutable_query()->set_communicator(message.communicator);
      break;
    case ControlKind::kAnswer:
      frame.mutable_answer()->set_id(message.query);
      EncodeReport(message.report, frame.mutable_answer());
      break;
  }
  return frame.SerializeAsString();
}

absl::StatusOr<ControlMessage> DecodeControl(absl::string_view payload) {
  comm::ControlFrame frame;
  if (!frame.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("its control message cannot be parsed");
  }
  ControlMessage message;
  switch (frame.kind_case()) {
    case comm::ControlFrame::kAbort:
      message.kind = ControlKind::kAbort;
      message.culprit = frame.abort().culprit();
      message.code = frame.abort().code();
      message.text = frame.abort().text();
      break;
    case comm::ControlFrame::kGoodbye:
      message.kind = ControlKind::kGoodbye;
      break;
    case comm::ControlFrame::kQuery:
      message.kind = ControlKind::kQuery;
      message.query = frame.query().id();
      message.communicator = frame.query().communicator();
      break;
    case comm::ControlFrame::kAnswer:
      message.kind = ControlKind::kAnswer;
      message.query = frame.answer().id();
      message.report = DecodeReport(frame.answer());
      break;
    case comm::ControlFrame::KIND_NOT_SET:
      return absl::DataLossError("its control message has no kind");
  }
  if (message.text.size() > ControlMessage::kMaxTextBytes ||
      message.report.operation.size() > ControlMessage::kMaxTextBytes ||
      message.report.awaiting.size() > kMaxAwaiting) {
    return absl::DataLossError("its control message is too long to be true");
  }
  return message;
}

}  // namespace shoal::internal
