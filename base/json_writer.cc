// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/json_writer.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace shoal {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the valid UTF-8 sequence at the start of `text`, which is not
// empty; 0 if there is none (RFC 3629: no surrogates, nothing overlong).
std::size_t SequenceLength(absl::string_view text) {
  const auto byte = [text](std::size_t i) -> unsigned {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

void JsonWriter::NewLine() {
  text_.push_back('\n');
  text_.append(2 * static_cast<std::size_t>(depth_), ' ');
}

void JsonWriter::BeginValue() {
  if (!after_key_) {
    if (needs_comma_) text_.push_back(',');
    if (depth_ > 0) NewLine();
  }
  after_key_ = false;
  needs_comma_ = true;
}

void JsonWriter::BeginObject() {
  BeginValue();
  text_.push_back('{');
  ++depth_;
  needs_comma_ = false;
}

void JsonWriter::BeginArray() {
  BeginValue();
  text_.push_back('[');
  ++depth_;
  needs_comma_ = false;
}

void JsonWriter::End(char bracket) {
  --depth_;
  if (needs_comma_) NewLine();
  text_.push_back(bracket);
  if (depth_ == 0) text_.push_back('\n');
  needs_comma_ = true;
}

void JsonWriter::EndObject() { End('}'); }
void JsonWriter::EndArray() { End(']'); }

void JsonWriter::Key(absl::string_view name) {
  BeginValue();
  Quote(name);
  text_.append(": ");
  after_key_ = true;
}

void JsonWriter::String(absl::string_view value) {
  BeginValue();
  Quote(value);
}

void JsonWriter::Integer(std::int64_t value) {
  BeginValue();
  absl::StrAppend(&text_, value);
}

void JsonWriter::Number(double value) {
  BeginValue();
  // As many digits as tell any two doubles apart.
  text_.append(std::isfinite(value) ? absl::StrFormat("%.17g", value)
                                    : std::string("null"));
}

void JsonWriter::Bool(bool value) {
  BeginValue();
  text_.append(value ? "true" : "false");
}

void JsonWriter::Quote(absl::string_view value) {
  text_.push_back('"');
  while (!value.empty()) {
    const std::size_t length = SequenceLength(value);
    const unsigned char first = value[0];
    if (length == 0) {
      absl::StrAppend(&text_, kReplacement);
    } else if (first == '"' || first == '\\') {
      text_.push_back('\\');
      text_.push_back(first);
    } else if (first < 0x20) {
      absl::StrAppendFormat(&text_, "\\u%04x", first);
    } else {
      absl::StrAppend(&text_, value.substr(0, length));
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  text_.push_back('"');
}

}  // namespace shoal
