// SPDX-License-Identifier: Apache-2.0
//
// The algorithms themselves: one function for each, which appends the steps of
// one rank to a schedule. For schedule.cc alone; others use schedule.h.
//
// Each expects a schedule whose signature, rank, world size (at least 2) and
// buffer sizes are set and whose arguments have been checked.

#ifndef SHOAL_COMM_SCHEDULE_BUILDERS_H_
#define SHOAL_COMM_SCHEDULE_BUILDERS_H_

#include "shoal/comm/schedule.h"

namespace shoal::internal {

void AddRingAllReduce(bool in_place, Schedule* schedule);
void AddRingReduceScatter(bool in_place, Schedule* schedule);
void AddRingAllGather(bool in_place, Schedule* schedule);
void AddRecursiveDoublingAllReduce(bool in_place, Schedule* schedule);
void AddBinomialTreeBroadcast(Schedule* schedule);
void AddDisseminationBarrier(Schedule* schedule);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SCHEDULE_BUILDERS_H_
