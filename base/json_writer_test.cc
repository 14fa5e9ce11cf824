// SPDX-License-Identifier: Apache-2.0

#include "shoal/base/json_writer.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace shoal {
namespace {

std::string Quoted(const std::string& value) {
  JsonWriter json;
  json.String(value);
  return json.text();
}

std::string NumberText(double value) {
  JsonWriter json;
  json.Number(value);
  return json.text();
}

TEST(JsonWriterTest, NestsAndSeparates) {
  JsonWriter json;
  json.BeginObject();
  json.Key("a");
  json.Integer(-7);
  json.Key("b");
  json.BeginArray();
  json.Bool(true);
  json.BeginObject();
  json.EndObject();
  json.BeginArray();
  json.EndArray();
  json.EndArray();
  json.Key("c");
  json.String("d");
  json.EndObject();
  EXPECT_EQ(json.text(),
            "{\n"
            "  \"a\": -7,\n"
            "  \"b\": [\n"
            "    true,\n"
            "    {},\n"
            "    []\n"
            "  ],\n"
            "  \"c\": \"d\"\n"
            "}\n");
}

TEST(JsonWriterTest, EscapesStrings) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
  EXPECT_EQ(Quoted(std::string("\n\t\0\x1f\x7f", 5)),
            "\"\\u000a\\u0009\\u0000\\u001f\x7f\"");
  EXPECT_EQ(Quoted("Zürich \xF0\x9F\x90\x9F"), "\"Zürich \xF0\x9F\x90\x9F\"");
}

TEST(JsonWriterTest, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(Quoted("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(Quoted("\xC3"), "\"\xEF\xBF\xBD\"");
  // Overlong, a surrogate, beyond U+10FFFF: each byte by itself.
  EXPECT_EQ(Quoted("\xC0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Quoted("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Quoted("\xF4\x90\x80\x80"),
            "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonWriterTest, NumbersAreFiniteAndExact) {
  EXPECT_EQ(NumberText(0.5), "0.5");
  EXPECT_EQ(NumberText(-3), "-3");
  EXPECT_EQ(std::stod(NumberText(0.1)), 0.1);
  EXPECT_EQ(std::stod(NumberText(1.2345678901234567e-300)),
            1.2345678901234567e-300);
  EXPECT_EQ(NumberText(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(NumberText(std::numeric_limits<double>::quiet_NaN()), "null");
  JsonWriter json;
  json.Integer(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(json.text(), "-9223372036854775808");
}

}  // namespace
}  // namespace shoal
