// SPDX-License-Identifier: Apache-2.0
//
// What there is to measure: a table with an entry for each collective.
//
// An entry says how a size is shared out, what the ranks call, and what has to
// be in their buffers afterwards; everything else (flags, timing, checking,
// tables) follows from that. Sizes, counts and bandwidths are those of
// nccl-tests, so that figures can be held side by side.
//
// Values; thread-safe.

#ifndef SHOAL_TOOLS_COMM_BENCH_COLLECTIVES_H_
#define SHOAL_TOOLS_COMM_BENCH_COLLECTIVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"

namespace shoal::comm_bench {

// One call of a rank: what a collective is called with.
struct Exercise {
  Communicator* communicator = nullptr;
  ConstBuffer input;
  Buffer output;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  CallOptions options;
  // Of those that take lists of parts, and of several tensors.
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> recv_counts;
  std::vector<Buffer> tensors;
  // Of those that take one.
  std::string* text = nullptr;
};

// What a rank's input or output holds of the elements that a size stands for.
enum class Share {
  kNothing,
  kPart,  // 1 / world size, or with unequal parts the rank's own
  kWhole,
};

// A run of elements that has to be in a rank's output.
struct Segment {
  std::int64_t position = 0;  // in the output
  std::int64_t count = 0;
  int whose = 0;           // a rank's, or kReduced (pattern.h)
  std::int64_t first = 0;  // of that rank's input, or of the reduction
};

struct Place {
  int rank = 0;
  int world_size = 1;
  int root = 0;
};

struct Collective {
  absl::string_view name;  // "all_reduce"
  // What it does, for --help: of one line.
  absl::string_view summary;
  // As the library knows it; nothing for one whose algorithm cannot be chosen.
  std::optional<CallKind> kind;
  int min_world_size = 1;

  Share input = Share::kWhole;
  Share output = Share::kWhole;
  // The elements are parts for each rank also where both are kWhole.
  bool has_parts = false;
  // The parts are those of `PartStart`, not of one length.
  bool unequal = false;
  // Takes Exercise::text, which holds the input on the root and has to hold the
  // output, in place of the buffers. Its elements are bytes.
  bool is_string = false;
  bool out_of_place = true;
  bool in_place = true;
  // Also has a choice of wire formats.
  bool has_op = false;
  bool has_root = false;
  // Some ranks could be done before others have begun, so that calls that
  // follow one another would overlap: a barrier comes before each one, and is
  // not timed.
  bool needs_barrier = false;
  // How much of the time of what `run` does counts.
  double time_factor = 1;

  // What a link carries, relative to the size (nccl-tests,
  // doc/PERFORMANCE.md).
  double (*bus_factor)(int world_size) = nullptr;
  absl::Status (*run)(const Exercise& exercise) = nullptr;
  // Fills in the lists that `run` needs, if it needs any: not timed.
  void (*prepare)(std::int64_t count, const Place& place,
                  Exercise* exercise) = nullptr;
  // With `count` elements in a part, or in the whole if there are no parts.
  std::vector<Segment> (*expected)(std::int64_t count,
                                   const Place& place) = nullptr;

  bool shares() const {
    return has_parts || input == Share::kPart || output == Share::kPart;
  }
  // Elements of a part for a size of `elements`, or of the whole.
  std::int64_t CountFor(std::int64_t elements, int world_size) const;
  // Where a rank's part of the whole begins, in elements; for rank world_size
  // the whole. Unequal parts grow with the rank: the first may be empty.
  std::int64_t PartStart(std::int64_t count, int rank, int world_size) const;
  // Elements of a rank's buffer.
  std::int64_t BufferCount(Share share, std::int64_t count, int rank,
                           int world_size) const;
};

// Into how many tensors all_reduce_coalesced cuts its elements.
inline constexpr int kTensors = 8;

// Whether a reduction of such elements may travel so.
bool ReductionTakes(ReduceOp op, DType dtype, WireFormat wire);

absl::Span<const Collective> AllCollectives();

// `INVALID_ARGUMENT` names the name and the choice.
absl::StatusOr<const Collective*> FindCollective(absl::string_view name);

// "all_reduce, reduce_scatter, ...".
std::string CollectiveNames();

// A line for each, with its summary.
std::string CollectivesText();

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_COLLECTIVES_H_
