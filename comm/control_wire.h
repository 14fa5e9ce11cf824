// SPDX-License-Identifier: Apache-2.0
//
// The messages of the control plane as bytes (control.proto).
//
// Thread-safe.

#ifndef SHOAL_COMM_CONTROL_WIRE_H_
#define SHOAL_COMM_CONTROL_WIRE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/comm/control_plane.h"

namespace shoal::internal {

// The payload of a frame, always shorter than kMaxStrangerPayload: a text is
// cut at ControlMessage::kMaxTextBytes.
std::string EncodeControl(const ControlMessage& message);

// `DATA_LOSS` when the bytes are no such message, or a text or list in it is
// longer than any rank makes it. What the values mean is for the control plane
// to check.
absl::StatusOr<ControlMessage> DecodeControl(absl::string_view payload);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_CONTROL_WIRE_H_
