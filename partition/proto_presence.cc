// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/proto_presence.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "shoal/base/status_macros.h"

namespace shoal::internal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status CheckSingular(const Message& message,
                           const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (!reflection.HasField(message, &field)) {
    return absl::InvalidArgumentError(
        absl::StrCat(message.GetDescriptor()->name(), ": field \"",
                     field.name(), "\" is missing"));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const int number = reflection.GetEnumValue(message, &field);
    if (number == 0 ||
        field.enum_type()->FindValueByNumber(number) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(message.GetDescriptor()->name(), ": field \"",
                       field.name(), "\" has the value ", number,
                       ", which is no ", field.enum_type()->name()));
    }
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return CheckAllFieldsPresent(reflection.GetMessage(message, &field));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAllFieldsPresent(const Message& message) {
  const google::protobuf::Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (!field.is_repeated()) {
      SHOAL_RETURN_IF_ERROR(CheckSingular(message, field));
      continue;
    }
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    const int size = reflection.FieldSize(message, &field);
    for (int element = 0; element < size; ++element) {
      SHOAL_RETURN_IF_ERROR(CheckAllFieldsPresent(
          reflection.GetRepeatedMessage(message, &field, element)));
    }
  }
  return absl::OkStatus();
}

}  // namespace shoal::internal
