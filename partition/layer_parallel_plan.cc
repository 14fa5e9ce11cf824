// SPDX-License-Identifier: Apache-2.0
#include "shoal/partition/layer_parallel_plan.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/status_macros.h"
#include "shoal/partition/argument_checks.h"
#include "shoal/partition/tensor_shard.h"

namespace shoal {

LayerParallelPlan LayerParallelPlan::WithGroup(int new_group_id) const {
  LayerParallelPlan plan = *this;
  plan.group_id = new_group_id;
  return plan;
}

absl::Status LayerParallelPlan::Validate() const {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "LayerParallelPlan: a layer needs a name; this one's is empty");
  }
  const std::string caller = absl::StrCat("LayerParallelPlan \"", name, "\"");
  if (!IsValid(strategy)) {
    return absl::InvalidArgumentError(
        absl::StrCat(caller, ": strategy must be kColumn or kRow, got ",
                     static_cast<int>(strategy)));
  }
  return internal::CheckNotNegative(caller, "group_id", group_id);
}

std::string LayerParallelPlan::ToString() const {
  return absl::StrCat(name, ": ", ShardDimName(strategy), ", group ", group_id);
}

}  // namespace shoal
