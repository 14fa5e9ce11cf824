// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/utf8.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace shoal::internal {
namespace {

// How many bytes the character has whose first byte is `lead`; 0 if there is
// none.
size_t EncodedSize(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Whether `second` may follow `lead`. Four lead bytes narrow its range, against
// overlong forms, surrogates and what lies beyond U+10FFFF.
bool SecondByteFits(uint8_t lead, uint8_t second) {
  switch (lead) {
    case 0xE0:
      return second >= 0xA0 && second < 0xC0;
    case 0xED:
      return second >= 0x80 && second < 0xA0;
    case 0xF0:
      return second >= 0x90 && second < 0xC0;
    case 0xF4:
      return second >= 0x80 && second < 0x90;
    default:
      return second >= 0x80 && second < 0xC0;
  }
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const uint8_t lead = static_cast<uint8_t>(text[i]);
    const size_t size = EncodedSize(lead);
    if (size == 0 || size > text.size() - i) return false;
    for (size_t j = 1; j < size; ++j) {
      const uint8_t byte = static_cast<uint8_t>(text[i + j]);
      const bool fits =
          j == 1 ? SecondByteFits(lead, byte) : (byte & 0xC0) == 0x80;
      if (!fits) return false;
    }
    i += size;
  }
  return true;
}

}  // namespace shoal::internal
