// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/range.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {

absl::Status Range::Validate() const {
  if (0 <= begin && begin <= end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Range: ", ToString(), " is not a range; it needs 0 <= begin <= end"));
}

std::string Range::ToString() const {
  return absl::StrCat("[", begin, ", ", end, ")");
}

}  // namespace shoal
