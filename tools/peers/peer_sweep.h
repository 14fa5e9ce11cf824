// SPDX-License-Identifier: Apache-2.0
//
// Measures another library as comm_bench measures Shoal: the same sizes, the
// same warm-ups, the same number of calls, the same median.

#ifndef SHOAL_TOOLS_PEERS_PEER_SWEEP_H_
#define SHOAL_TOOLS_PEERS_PEER_SWEEP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"

namespace shoal::peers {

// What every driver is called with.
struct Flags {
  int world = 2;
  std::string collective = "all_reduce";
  std::vector<std::int64_t> sizes;  // bytes, multiples of 4
  std::string output;               // a file; empty: standard output
};

// Reads --world, --collective, --sizes 4,16,... and --output.
// `INVALID_ARGUMENT` in one line.
absl::StatusOr<Flags> ParseFlags(int argc, char** argv);

// The ranks of a peer, as far as measuring needs them.
class PeerWorld {
 public:
  virtual ~PeerWorld() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The largest of all ranks' values; no rank returns before all have entered.
  virtual double Max(double value) = 0;
};

// Memory of one size, as a collective wants it.
struct Buffers {
  // Elements of the larger one, which `bytes` counts, and of a rank's part.
  std::int64_t count = 0;
  std::int64_t part = 0;
  std::vector<float> input;
  std::vector<float> output;  // in place: the only one
};

// One way of doing it.
struct Variant {
  std::string name;
  std::function<void()> call;
};

// The collectives that a driver may be asked for, and what their data are.
bool IsKnownCollective(absl::string_view name);

// Measures what `variants` makes of the buffers of each size; the best one
// counts. `variants` may give none for a size that it cannot do. Rank 0 writes
// a JSON document. Collective; returns the exit code, 1 if data were wrong.
int Sweep(PeerWorld* world, const Flags& flags,
          const std::function<std::vector<Variant>(Buffers*)>& variants);

// Runs `rank_main` in `world` processes that are forked from this one, which
// must have no threads yet, and waits. Returns 0 if all of them did; else ends
// the others and returns 1.
int ForkRanks(int world, const std::function<int(int rank)>& rank_main);

}  // namespace shoal::peers

#endif  // SHOAL_TOOLS_PEERS_PEER_SWEEP_H_
