// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/peers/peer_sweep.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "shoal/base/json_writer.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/tools/common/files.h"
#include "shoal/tools/common/flag_reader.h"
#include "shoal/tools/common/sampling.h"

namespace shoal::peers {
namespace {

constexpr int kWarmups = 5;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 34;

constexpr tools::FlagName kFlagNames[] = {
    {"--world"}, {"--collective"}, {"--sizes"}, {"--output"}};

// Element i of a rank's input; sums of it are exact.
float InputElement(int rank, std::int64_t i) {
  return static_cast<float>(i % 1021 + rank * (i % 11 + 1));
}

float SumElement(int world, std::int64_t i) {
  return static_cast<float>(world * (i % 1021) +
                            world * (world - 1) / 2 * (i % 11 + 1));
}

// One row of the output.
struct Row {
  std::int64_t bytes = 0;
  std::string variant;
  std::int64_t iterations = 0;
  double seconds = 0;
  std::int64_t wrong_elements = 0;  // on the rank that has most
};

class SizeSweep {
 public:
  SizeSweep(PeerWorld* world, const std::string& collective, std::int64_t bytes)
      : world_(world), collective_(collective) {
    const bool shares = collective == "reduce_scatter" ||
                        collective == "all_gather" ||
                        collective == "all_to_all";
    std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(float));
    buffers_.part = shares ? count / world->size() : count;
    buffers_.count = shares ? buffers_.part * world->size() : count;
    row_.bytes = buffers_.count * static_cast<std::int64_t>(sizeof(float));
    buffers_.input.resize(collective == "reduce_scatter" ||
                                  collective == "all_to_all"
                              ? buffers_.count
                          : collective == "all_gather" ? buffers_.part
                                                       : 0);
    buffers_.output.resize(collective == "reduce_scatter" ? buffers_.part
                                                          : buffers_.count);
  }

  Buffers* buffers() { return &buffers_; }

  // The best of the variants.
  Row Run(const std::vector<Variant>& variants) {
    row_.seconds = std::numeric_limits<double>::infinity();
    std::int64_t wrong = 0;
    for (const Variant& variant : variants) {
      Fill();
      std::vector<double> warmups;
      for (int i = 0; i < kWarmups; ++i) warmups.push_back(TimedCall(variant));
      const std::int64_t iterations = tools::IterationsInBudget(
          world_->Max(tools::Median(std::move(warmups))),
          tools::kAutoSeconds / variants.size(), tools::kAutoIterations);
      std::vector<double> seconds;
      for (std::int64_t i = 0; i < iterations; ++i) {
        seconds.push_back(TimedCall(variant));
      }
      const double median = world_->Max(tools::Median(std::move(seconds))) *
                            (collective_ == "ping_pong" ? 0.5 : 1);
      Fill();
      variant.call();
      wrong += static_cast<std::int64_t>(
          world_->Max(static_cast<double>(CountWrong())));
      if (median < row_.seconds) {
        row_.seconds = median;
        row_.variant = variant.name;
        row_.iterations = iterations;
      }
    }
    row_.wrong_elements = wrong;
    return row_;
  }

 private:
  void Fill() {
    std::vector<float>& source =
        buffers_.input.empty() ? buffers_.output : buffers_.input;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(source.size());
         ++i) {
      source[i] = InputElement(world_->rank(), i);
    }
    if (!buffers_.input.empty()) absl::c_fill(buffers_.output, -1.0f);
  }

  float Expected(std::int64_t i) const {
    const std::int64_t part = std::max<std::int64_t>(buffers_.part, 1);
    const int owner = static_cast<int>(i / part);
    if (collective_ == "all_reduce") return SumElement(world_->size(), i);
    if (collective_ == "reduce_scatter") {
      return SumElement(world_->size(), world_->rank() * part + i);
    }
    if (collective_ == "all_gather") return InputElement(owner, i % part);
    if (collective_ == "all_to_all") {
      return InputElement(owner, world_->rank() * part + i % part);
    }
    return InputElement(0, i);  // broadcast, ping_pong
  }

  std::int64_t CountWrong() const {
    if (collective_ == "ping_pong" && world_->rank() > 1) return 0;
    std::int64_t wrong = 0;
    for (std::int64_t i = 0;
         i < static_cast<std::int64_t>(buffers_.output.size()); ++i) {
      if (buffers_.output[i] != Expected(i)) ++wrong;
    }
    return wrong;
  }

  double TimedCall(const Variant& variant) {
    // As in comm_bench: the root must not run ahead.
    if (collective_ == "broadcast") world_->Max(0);
    const Stopwatch stopwatch;
    variant.call();
    return stopwatch.Seconds();
  }

  PeerWorld* const world_;
  const std::string collective_;
  Buffers buffers_;
  Row row_;
};

std::string RowsJson(const std::vector<Row>& rows) {
  JsonWriter json;
  json.BeginObject();
  json.Key("rows");
  json.BeginArray();
  for (const Row& row : rows) {
    json.BeginObject();
    json.Key("bytes");
    json.Integer(row.bytes);
    json.Key("variant");
    json.String(row.variant);
    json.Key("iterations");
    json.Integer(row.iterations);
    json.Key("median_seconds");
    json.Number(row.seconds);
    json.Key("wrong_elements");
    json.Integer(row.wrong_elements);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return json.text();
}

absl::Status ParseSizes(absl::string_view value, Flags* flags) {
  for (absl::string_view text : absl::StrSplit(value, ',')) {
    std::int64_t bytes;
    if (!absl::SimpleAtoi(text, &bytes) || bytes < 4 || bytes > kMaxSize) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--sizes takes bytes, 4 or more, with commas, not \"", value, "\""));
    }
    flags->sizes.push_back(bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  SHOAL_ASSIGN_OR_RETURN(
      const tools::CommandLine command_line,
      tools::ReadCommandLine(std::vector<std::string>(argv + 1, argv + argc),
                             kFlagNames));
  SHOAL_RETURN_IF_ERROR(tools::RefuseOperands(command_line));
  Flags flags;
  for (const tools::GivenFlag& flag : command_line.flags) {
    if (flag.name == "--world") {
      SHOAL_ASSIGN_OR_RETURN(flags.world,
                             tools::ParseInteger(flag.name, flag.value, 2, 64));
    } else if (flag.name == "--collective") {
      flags.collective = flag.value;
    } else if (flag.name == "--sizes") {
      SHOAL_RETURN_IF_ERROR(ParseSizes(flag.value, &flags));
    } else {
      flags.output = flag.value;
    }
  }
  if (!IsKnownCollective(flags.collective)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--collective takes all_reduce, reduce_scatter, all_gather, broadcast, "
        "all_to_all or ping_pong, not \"",
        flags.collective, "\""));
  }
  if (flags.sizes.empty()) {
    return absl::InvalidArgumentError("--sizes is missing");
  }
  return flags;
}

bool IsKnownCollective(absl::string_view name) {
  constexpr absl::string_view kNames[] = {"all_reduce", "reduce_scatter",
                                          "all_gather", "broadcast",
                                          "all_to_all", "ping_pong"};
  return absl::c_linear_search(kNames, name);
}

int Sweep(PeerWorld* world, const Flags& flags,
          const std::function<std::vector<Variant>(Buffers*)>& variants) {
  std::vector<Row> rows;
  bool right = true;
  for (const std::int64_t bytes : flags.sizes) {
    SizeSweep sweep(world, flags.collective, bytes);
    const std::vector<Variant> choice = variants(sweep.buffers());
    if (choice.empty()) continue;
    rows.push_back(sweep.Run(choice));
    right = right && rows.back().wrong_elements == 0;
  }
  if (world->rank() != 0) return right ? 0 : 1;
  if (flags.output.empty()) {
    std::cout << RowsJson(rows) << std::flush;
  } else if (const absl::Status status =
                 tools::WriteFile(flags.output, RowsJson(rows));
             !status.ok()) {
    std::cerr << status.message() << std::endl;
    return 1;
  }
  return right ? 0 : 1;
}

int ForkRanks(int world, const std::function<int(int rank)>& rank_main) {
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < world; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int code = rank_main(rank);
      std::cout.flush();
      _exit(code);
    }
    if (pid < 0) {
      std::cerr << "cannot start rank " << rank << std::endl;
      for (const pid_t other : ranks) kill(other, SIGKILL);
      return 1;
    }
    ranks.push_back(pid);
  }
  int result = 0;
  for (std::size_t ended = 0; ended < ranks.size(); ++ended) {
    int status = 0;
    waitpid(-1, &status, 0);
    if (status == 0 || result != 0) continue;
    result = 1;
    for (const pid_t pid : ranks) kill(pid, SIGKILL);
  }
  return result;
}

}  // namespace shoal::peers
