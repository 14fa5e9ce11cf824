// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/argument_checks.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal::internal {

absl::Status CheckWorldSize(absl::string_view caller, int world_size) {
  if (world_size > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(caller, ": world_size must be > 0, got ", world_size));
}

absl::Status CheckRank(absl::string_view caller, int rank, int world_size) {
  if (world_size <= 0) return CheckWorldSize(caller, world_size);
  if (rank >= 0 && rank < world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(caller, ": rank ", rank, " out of range for world ",
                   world_size, "; ranks are 0 to ", world_size - 1));
}

absl::Status CheckNotNegative(absl::string_view caller, absl::string_view what,
                              int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(caller, ": ", what, " must be >= 0, got ", value));
}

absl::Status CheckPositive(absl::string_view caller, absl::string_view what,
                           int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(caller, ": ", what, " must be > 0, got ", value));
}

}  // namespace shoal::internal
