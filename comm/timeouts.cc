// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/timeouts.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace shoal {
namespace {

absl::Status CheckOne(absl::string_view name, absl::Duration value,
                      bool may_be_infinite) {
  if (value <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", name, " time-out is ", absl::FormatDuration(value),
                     "; it must be more than 0"));
  }
  if (value == absl::InfiniteDuration() && !may_be_infinite) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", name, " time-out must not be infinite"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTimeouts(const Timeouts& timeouts) {
  absl::Status status = CheckOne("join", timeouts.join, true);
  status.Update(CheckOne("operation", timeouts.operation, true));
  status.Update(CheckOne("grace", timeouts.grace, false));
  status.Update(CheckOne("answer window", timeouts.answer_window, false));
  status.Update(CheckOne("close", timeouts.close, false));
  return status;
}

}  // namespace shoal
