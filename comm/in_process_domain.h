// SPDX-License-Identifier: Apache-2.0
//
// The failure domain of a world whose ranks are threads of one process: what
// the ranks of other worlds tell each other over control links lies in memory
// that all of them see.
//
// Thread-safe.

#ifndef SHOAL_COMM_IN_PROCESS_DOMAIN_H_
#define SHOAL_COMM_IN_PROCESS_DOMAIN_H_

#include <memory>
#include <vector>

#include "shoal/comm/failure_domain.h"

namespace shoal::internal {

// Element r is rank r's view of the one domain.
std::vector<std::shared_ptr<FailureDomain>> MakeInProcessDomains(
    int world_size);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_IN_PROCESS_DOMAIN_H_
