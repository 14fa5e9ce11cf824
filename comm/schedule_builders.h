// SPDX-License-Identifier: Apache-2.0
//
// The algorithms themselves: one function for each, which appends the steps of
// one rank to a schedule. For schedule.cc alone; others use schedule.h.
//
// Each expects a schedule whose signature, counts, rank, world size (at least
// 2) and buffer sizes are set and whose arguments have been checked.

#ifndef SHOAL_COMM_SCHEDULE_BUILDERS_H_
#define SHOAL_COMM_SCHEDULE_BUILDERS_H_

#include "shoal/comm/schedule.h"

namespace shoal::internal {

// schedule_ring.cc. The gathering one is that of AllGatherV, too.
void AddRingAllReduce(bool in_place, Schedule* schedule);
void AddRingReduceScatter(bool in_place, Schedule* schedule);
void AddRingAllGather(bool in_place, Schedule* schedule);

// schedule_doubling.cc
void AddRecursiveDoublingAllReduce(bool in_place, Schedule* schedule);
void AddHalvingDoublingAllReduce(bool in_place, Schedule* schedule);
void AddDisseminationBarrier(bool in_place, Schedule* schedule);

// schedule_direct.cc. AllGather's and AllToAll's are those of unequal parts,
// too.
void AddDirectAllReduce(bool in_place, Schedule* schedule);
void AddOneShotAllReduce(bool in_place, Schedule* schedule);
void AddDirectReduceScatter(bool in_place, Schedule* schedule);
void AddDirectAllGather(bool in_place, Schedule* schedule);
void AddPairwiseAllToAll(bool in_place, Schedule* schedule);
void AddLinearBroadcast(bool in_place, Schedule* schedule);
void AddLinearReduce(bool in_place, Schedule* schedule);
void AddLinearGather(bool in_place, Schedule* schedule);
void AddLinearScatter(bool in_place, Schedule* schedule);

// schedule_tree.cc
void AddBinomialTreeBroadcast(bool in_place, Schedule* schedule);
void AddTreeAllReduce(bool in_place, Schedule* schedule);
void AddTreeReduce(bool in_place, Schedule* schedule);
void AddChainBroadcast(bool in_place, Schedule* schedule);
void AddChainReduce(bool in_place, Schedule* schedule);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SCHEDULE_BUILDERS_H_
