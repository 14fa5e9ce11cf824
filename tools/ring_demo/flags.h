// SPDX-License-Identifier: Apache-2.0
//
// The command line of ring_demo.

#ifndef SHOAL_TOOLS_RING_DEMO_FLAGS_H_
#define SHOAL_TOOLS_RING_DEMO_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"

namespace shoal::ring_demo {

struct Flags {
  // Ranks to start on this machine. 0: not given.
  int world = 0;
  std::int64_t layers = 32;
  // Of the largest all-reduce; a multiple of 4.
  std::int64_t max_bytes = 16 << 20;
  // A file for all figures; empty: none.
  std::string json;
  bool help = false;
};

inline constexpr int kDefaultWorld = 4;
inline constexpr int kMaxWorld = 64;

// Reads what stands after the program's name, without the flags that
// environment.h takes. "--name value" and "--name=value" are the same. Each may
// be given once.
// `INVALID_ARGUMENT`, in one line that names the flag, its value and what it
// may be.
absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments);

// The flags for the ranks of a world that was started with these.
std::vector<std::string> RankArguments(const Flags& flags);

// What --help prints.
std::string HelpText();

}  // namespace shoal::ring_demo

#endif  // SHOAL_TOOLS_RING_DEMO_FLAGS_H_
