// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/plan_json.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"

namespace shoal::internal {
namespace {

// Protobuf's status is absl::Status or, before its release 22, a type of its
// own with the same member functions.
template <typename ProtobufStatus>
absl::Status InvalidJson(const google::protobuf::Message& message,
                         const ProtobufStatus& status) {
  const auto reason = status.message();
  return absl::InvalidArgumentError(
      absl::StrCat("JSON of ", message.GetDescriptor()->name(), ": ",
                   absl::string_view(reason.data(), reason.size())));
}

}  // namespace

absl::StatusOr<std::string> MessageToJson(
    const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return InvalidJson(message, status);
  return json;
}

absl::Status JsonToMessage(absl::string_view json,
                           google::protobuf::Message& message) {
  const auto status =
      google::protobuf::util::JsonStringToMessage(std::string(json), &message);
  if (!status.ok()) return InvalidJson(message, status);
  return absl::OkStatus();
}

}  // namespace shoal::internal
