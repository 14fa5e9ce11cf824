// SPDX-License-Identifier: Apache-2.0
//
// The plans of package partition as JSON: protobuf's own mapping of the
// messages of partition.proto (names in lowerCamelCase, 64-bit integers as
// strings).
//
//   absl::StatusOr<std::string> json = PlanToJson(shard);
//   absl::StatusOr<TensorShard> shard = PlanFromJson<TensorShard>(*json);
//
// Works for every type that has a message in plan_proto_conversion.h, and for
// std::vector<LayerParallelPlan>. Pure functions, safe from any thread.
#ifndef SHOAL_PARTITION_PLAN_JSON_H_
#define SHOAL_PARTITION_PLAN_JSON_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "shoal/partition/plan_proto_conversion.h"

namespace shoal {
namespace internal {

absl::StatusOr<std::string> MessageToJson(
    const google::protobuf::Message& message);
absl::Status JsonToMessage(absl::string_view json,
                           google::protobuf::Message& message);

}  // namespace internal

// `plan` as indented JSON. Errors: those of ToProto.
template <typename Plan>
absl::StatusOr<std::string> PlanToJson(const Plan& plan) {
  auto proto = ToProto(plan);
  if (!proto.ok()) return std::move(proto).status();
  return internal::MessageToJson(*proto);
}

// The plan that `json` holds. kInvalidArgument if it is not JSON, has a field
// that the message does not have or one of another type; else the errors of
// FromProto.
template <typename Plan>
absl::StatusOr<Plan> PlanFromJson(absl::string_view json) {
  typename decltype(ToProto(std::declval<const Plan&>()))::value_type proto;
  absl::Status status = internal::JsonToMessage(json, proto);
  if (!status.ok()) return status;
  return FromProto(proto);
}

}  // namespace shoal

#endif  // SHOAL_PARTITION_PLAN_JSON_H_
