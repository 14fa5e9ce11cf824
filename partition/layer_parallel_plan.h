// SPDX-License-Identifier: Apache-2.0
//
// LayerParallelPlan: how one named layer of a model is cut. A list of them, one
// for each weight, drives a model's loader.
//
//   LayerParallelPlan("mlp.gate_proj", ShardDim::kColumn).WithGroup(1)
//
// A plain value without an owner; const member functions may be called from any
// thread.
#ifndef SHOAL_PARTITION_LAYER_PARALLEL_PLAN_H_
#define SHOAL_PARTITION_LAYER_PARALLEL_PLAN_H_

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "shoal/partition/tensor_shard.h"

namespace shoal {

struct LayerParallelPlan {
  // A plan in group 0.
  LayerParallelPlan(std::string name, ShardDim strategy)
      : name(std::move(name)), strategy(strategy) {}

  // The same plan in another group.
  LayerParallelPlan WithGroup(int new_group_id) const;

  // OK if the name is not empty, the strategy is an enumerator and the group is
  // not negative; else kInvalidArgument naming the layer and the field.
  absl::Status Validate() const;

  // "mlp.gate_proj: column, group 1".
  std::string ToString() const;

  friend bool operator==(const LayerParallelPlan&,
                         const LayerParallelPlan&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const LayerParallelPlan& plan) {
    return H::combine(std::move(h), plan.name, plan.strategy, plan.group_id);
  }
  friend std::ostream& operator<<(std::ostream& os,
                                  const LayerParallelPlan& plan) {
    return os << plan.ToString();
  }

  std::string name;   // As in the checkpoint, without ".weight".
  ShardDim strategy;  // The dimension that is cut.
  int group_id = 0;   // The tensor-parallel group, where there are several.
};

}  // namespace shoal

#endif  // SHOAL_PARTITION_LAYER_PARALLEL_PLAN_H_
