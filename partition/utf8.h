// SPDX-License-Identifier: Apache-2.0
//
// Whether bytes are text that a protobuf string field may hold.
#ifndef SHOAL_PARTITION_UTF8_H_
#define SHOAL_PARTITION_UTF8_H_

#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

// Whether `text` is well-formed UTF-8 (The Unicode Standard, table 3-7): no
// overlong form, no surrogate, nothing beyond U+10FFFF, nothing cut short.
bool IsUtf8(absl::string_view text);

}  // namespace shoal::internal

#endif  // SHOAL_PARTITION_UTF8_H_
