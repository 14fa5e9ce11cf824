// SPDX-License-Identifier: Apache-2.0
//
// Writes one JSON document (RFC 8259), member by member.
//
//   JsonWriter json;
//   json.BeginObject();
//   json.Key("ranks");
//   json.BeginArray();
//   json.Integer(4);
//   json.EndArray();
//   json.EndObject();
//   file << json.text();
//
// Calls have to nest as the document does; that is the caller's duty.
// Threads: one at a time.

#ifndef SHOAL_BASE_JSON_WRITER_H_
#define SHOAL_BASE_JSON_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal {

class JsonWriter {
 public:
  void BeginObject();
  void EndObject();
  void BeginArray();
  void EndArray();

  // The name of an object's next member.
  void Key(absl::string_view name);

  // Values. Strings are UTF-8; bytes that are not become U+FFFD. A number that
  // is not finite has no form in JSON and becomes null.
  void String(absl::string_view value);
  void Integer(std::int64_t value);
  void Number(double value);
  void Bool(bool value);

  // The document so far, with a line feed at its end once it is complete.
  const std::string& text() const { return text_; }

 private:
  void BeginValue();
  void End(char bracket);
  void Quote(absl::string_view value);
  void NewLine();

  std::string text_;
  int depth_ = 0;
  // Something stands before the next member or element.
  bool needs_comma_ = false;
  bool after_key_ = false;
};

}  // namespace shoal

#endif  // SHOAL_BASE_JSON_WRITER_H_
