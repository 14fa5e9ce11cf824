// SPDX-License-Identifier: Apache-2.0
//
// The rule of partition.proto that every singular field is present and every
// enumerator known, checked by reflection for all messages alike.
#ifndef SHOAL_PARTITION_PROTO_PRESENCE_H_
#define SHOAL_PARTITION_PROTO_PRESENCE_H_

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

// OK, or kInvalidArgument naming the first field of `message`, or of a message
// inside it, that is missing or has an enumerator that is unknown or 0 (which
// stands for "unspecified"): "TensorShardProto: field \"rank\" is missing".
absl::Status CheckAllFieldsPresent(const google::protobuf::Message& message);

}  // namespace shoal::internal

#endif  // SHOAL_PARTITION_PROTO_PRESENCE_H_
