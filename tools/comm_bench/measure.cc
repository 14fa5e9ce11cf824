// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/measure.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tools/comm_bench/collectives.h"
#include "shoal/tools/comm_bench/pattern.h"
#include "shoal/tools/comm_bench/results.h"
#include "shoal/tools/comm_bench/user_sum.h"
#include "shoal/tools/common/sampling.h"

namespace shoal::comm_bench {
namespace {

// Memory that begins at a page, or at the odd address after it.
class Memory {
 public:
  Memory(std::int64_t bytes, bool unaligned)
      : bytes_(bytes), data_(new char[bytes + kPage + 1]) {
    void* start = data_.get();
    std::size_t space = bytes + kPage;
    std::align(kPage, bytes, start, space);
    start_ = static_cast<char*>(start) + (unaligned ? 1 : 0);
  }
  // Also brings all pages into being.
  void Clear() { std::memset(start_, 0, bytes_); }
  char* start() { return start_; }

 private:
  static constexpr std::int64_t kPage = 4096;

  std::int64_t bytes_;
  std::unique_ptr<char[]> data_;
  char* start_;
};

// One half of a row.
class Half {
 public:
  Half(Communicator* communicator, const Collective& collective,
       std::int64_t count, bool in_place, const MeasureOptions& options,
       const Pattern& pattern)
      : communicator_(communicator),
        collective_(collective),
        count_(count),
        options_(options),
        pattern_(pattern),
        place_{communicator->rank(), communicator->world_size(), options.root},
        input_count_(collective.BufferCount(collective.input, count,
                                            place_.rank, place_.world_size)),
        output_count_(collective.BufferCount(collective.output, count,
                                             place_.rank, place_.world_size)),
        first_(
            (in_place ? std::max(input_count_, output_count_) : input_count_) *
                element_bytes(),
            options.unaligned),
        second_(in_place ? 0 : output_count_ * element_bytes(),
                options.unaligned) {
    char* input = first_.start();
    char* output = in_place ? first_.start() : second_.start();
    const std::int64_t own_part =
        collective.PartStart(count, place_.rank, place_.world_size) *
        element_bytes();
    if (in_place && input_count_ < output_count_) input += own_part;
    if (in_place && output_count_ < input_count_) output += own_part;
    exercise_.communicator = communicator;
    exercise_.input = {input, input_count_, options.dtype};
    exercise_.output = {output, output_count_, options.dtype};
    exercise_.op = options.op;
    exercise_.root = options.root;
    exercise_.options.algorithm = options.algorithm;
    exercise_.options.wire = options.wire;
    if (collective.has_op && options.op == ReduceOp::kUser) {
      exercise_.options.user_reduction = &UserSum(options.dtype);
    }
    exercise_.text = &text_;
    if (collective.prepare != nullptr) {
      collective.prepare(count, place_, &exercise_);
    }
    input_ = input;
  }

  absl::StatusOr<Timing> Run() {
    Prepare();
    std::vector<double> warmup_seconds;
    for (std::int64_t i = 0; i < options_.warmups; ++i) {
      SHOAL_ASSIGN_OR_RETURN(const double took, TimedCall());
      warmup_seconds.push_back(took);
    }
    Timing timing;
    SHOAL_ASSIGN_OR_RETURN(timing.iterations,
                           Iterations(std::move(warmup_seconds)));
    std::vector<double> seconds;
    seconds.reserve(timing.iterations);
    for (std::int64_t i = 0; i < timing.iterations; ++i) {
      SHOAL_ASSIGN_OR_RETURN(const double took, TimedCall());
      seconds.push_back(took * collective_.time_factor);
    }
    timing.seconds = tools::Median(std::move(seconds));
    SHOAL_RETURN_IF_ERROR(communicator_->AllReduce(
        BufferOf(absl::MakeSpan(&timing.seconds, 1)), ReduceOp::kMax));
    if (options_.checks > 0) {
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < options_.checks; ++i) {
        Prepare();
        SHOAL_RETURN_IF_ERROR(collective_.run(exercise_));
        wrong += CountWrong();
      }
      SHOAL_RETURN_IF_ERROR(communicator_->AllReduce(
          BufferOf(absl::MakeSpan(&wrong, 1)), ReduceOp::kSum));
      timing.wrong_elements = wrong;
    }
    return timing;
  }

 private:
  std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(DTypeSize(options_.dtype));
  }

  // Fills the input. What was in the output before is no result.
  void Prepare() {
    first_.Clear();
    second_.Clear();
    pattern_.Fill(place_.rank, 0, input_count_, input_);
    if (!collective_.is_string) return;
    // Other ranks do not know yet how long it will be.
    text_.clear();
    if (place_.rank == place_.root) {
      text_.assign(input_, input_count_ * element_bytes());
    }
  }

  std::int64_t CountWrong() {
    if (collective_.is_string) {
      first_.Clear();
      const std::int64_t bytes = output_count_ * element_bytes();
      // One of another length is no element of it right.
      if (static_cast<std::int64_t>(text_.size()) != bytes) {
        return std::max<std::int64_t>(1, output_count_);
      }
      std::memcpy(exercise_.output.data, text_.data(), bytes);
    }
    std::int64_t wrong = 0;
    const char* output = static_cast<const char*>(exercise_.output.data);
    for (const Segment& segment : collective_.expected(count_, place_)) {
      wrong += pattern_.CountWrong(segment.whose, segment.first, segment.count,
                                   output + segment.position * element_bytes());
    }
    return wrong;
  }

  absl::StatusOr<double> TimedCall() {
    if (collective_.needs_barrier) {
      SHOAL_RETURN_IF_ERROR(communicator_->Barrier());
    }
    const Stopwatch stopwatch;
    SHOAL_RETURN_IF_ERROR(collective_.run(exercise_));
    return stopwatch.Seconds();
  }

  // How many calls to time; the slowest rank decides for all.
  absl::StatusOr<std::int64_t> Iterations(std::vector<double> warmup_seconds) {
    if (options_.iterations > 0) return options_.iterations;
    if (warmup_seconds.empty()) {
      SHOAL_ASSIGN_OR_RETURN(const double took, TimedCall());
      warmup_seconds.push_back(took);
    }
    double seconds = tools::Median(std::move(warmup_seconds));
    SHOAL_RETURN_IF_ERROR(communicator_->AllReduce(
        BufferOf(absl::MakeSpan(&seconds, 1)), ReduceOp::kMax));
    return tools::IterationsInBudget(seconds, tools::kAutoSeconds,
                                     tools::kAutoIterations);
  }

  Communicator* const communicator_;
  const Collective& collective_;
  const std::int64_t count_;
  const MeasureOptions& options_;
  const Pattern& pattern_;
  const Place place_;
  const std::int64_t input_count_;
  const std::int64_t output_count_;
  Memory first_;
  Memory second_;
  char* input_;
  std::string text_;
  Exercise exercise_;
};

}  // namespace

absl::StatusOr<Row> Measure(Communicator* communicator,
                            const Collective& collective, std::int64_t bytes,
                            const MeasureOptions& options,
                            const Pattern& pattern) {
  const int world = communicator->world_size();
  const auto element_bytes =
      static_cast<std::int64_t>(DTypeSize(options.dtype));
  Row row;
  row.count = collective.CountFor(bytes / element_bytes, world);
  if (collective.input == Share::kNothing &&
      collective.output == Share::kNothing) {
    row.count = 0;
  }
  row.bytes = element_bytes *
              std::max(collective.BufferCount(collective.input, row.count,
                                              communicator->rank(), world),
                       collective.BufferCount(collective.output, row.count,
                                              communicator->rank(), world));
  const auto measure = [&](bool in_place) -> absl::StatusOr<Timing> {
    SHOAL_ASSIGN_OR_RETURN(
        Timing timing,
        Half(communicator, collective, row.count, in_place, options, pattern)
            .Run());
    if (timing.seconds > 0) {
      timing.algorithm_bandwidth =
          static_cast<double>(row.bytes) / timing.seconds;
      timing.bus_bandwidth =
          timing.algorithm_bandwidth * collective.bus_factor(world);
    }
    return timing;
  };
  if (collective.out_of_place && options.halves != Halves::kInPlace) {
    SHOAL_ASSIGN_OR_RETURN(row.out_of_place, measure(/*in_place=*/false));
  }
  if (collective.in_place && options.halves != Halves::kOutOfPlace) {
    SHOAL_ASSIGN_OR_RETURN(row.in_place, measure(/*in_place=*/true));
  }
  return row;
}

}  // namespace shoal::comm_bench
