// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/utf8.h"

#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace shoal::internal {
namespace {

// The encoding of a code point, by the bits of Unicode's table 3-6.
std::string Encode(uint32_t c) {
  const auto tail = [c](int shift) {
    return static_cast<char>(0x80 | ((c >> shift) & 0x3F));
  };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) {
    return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  }
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

TEST(Utf8Test, AcceptsEveryCodePointButSurrogates) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(IsUtf8(Encode(c)), !surrogate) << std::hex << c;
  }
}

TEST(Utf8Test, AcceptsText) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(IsUtf8("sch\xC3\xB6n \xE2\x82\xAC \xF0\x9F\x90\x9F"));
}

TEST(Utf8Test, RefusesMalformedBytes) {
  for (const std::string text : {
           "\x80",              // A continuation without a beginning.
           "\xC3",              // Cut short.
           "\xE2\x82",          // Cut short.
           "\xF0\x9F\x90",      // Cut short.
           "\xC3(",             // No continuation.
           "\xE2\x82(",         // No continuation.
           "\xF0\x9F(\x9F",     // No continuation.
           "\xC0\x80",          // Overlong.
           "\xC1\xBF",          // Overlong.
           "\xE0\x9F\xBF",      // Overlong.
           "\xF0\x8F\xBF\xBF",  // Overlong.
           "\xED\xA0\x80",      // A surrogate.
           "\xF4\x90\x80\x80",  // Beyond U+10FFFF.
           "\xF5\x80\x80\x80",  // Beyond U+10FFFF.
           "\xFF",
           "good\xFE",
       }) {
    EXPECT_FALSE(IsUtf8(text)) << absl::CHexEscape(text);
  }
}

}  // namespace
}  // namespace shoal::internal
