// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/communicator.h"
#include "shoal/partition/pipeline_partition.h"
#include "shoal/partition/range.h"
#include "shoal/tools/common/text_table.h"

namespace shoal::ring_demo {
namespace {

using tools::TextTable;

// As Linux limits them, with the null character.
constexpr int kHostBytes = 65;

absl::string_view Duties(BlockRole role) {
  switch (role) {
    case BlockRole::kSingle:
      return "embeds tokens, runs the head";
    case BlockRole::kFirst:
      return "embeds tokens";
    case BlockRole::kMiddle:
      return "";
    case BlockRole::kLast:
      return "runs the head";
  }
  return "";
}

// The flags that have to be the same on all ranks, which were started by hand
// perhaps. `numbers` has a row of `row` numbers for each rank.
absl::Status CheckSameFlags(const std::vector<std::int64_t>& numbers, int row,
                            int layers_column, int max_bytes_column) {
  const struct {
    const char* flag;
    int column;
  } kFlags[] = {{"--layers", layers_column}, {"--max_bytes", max_bytes_column}};
  const int world = static_cast<int>(numbers.size()) / row;
  for (const auto& [flag, column] : kFlags) {
    for (int rank = 1; rank < world; ++rank) {
      const std::int64_t theirs = numbers[row * rank + column];
      if (theirs == numbers[column]) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", rank, " has ", flag, " ", theirs, " where rank 0 has ", flag,
          " ", numbers[column], "; give all ranks the same flags"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<RankInfo>> GatherRanks(Communicator* communicator,
                                                  std::int64_t num_layers,
                                                  std::int64_t max_bytes) {
  const int rank = communicator->rank();
  const int world = communicator->world_size();
  // What a rank does is its own to say, so that the table shows what is and
  // not what should be.
  SHOAL_ASSIGN_OR_RETURN(const Range layers,
                         PipelineLayerRange(num_layers, rank, world));
  SHOAL_ASSIGN_OR_RETURN(const BlockRole role, GetBlockRole(rank, world));
  constexpr int kNumbers = 6;
  const std::int64_t mine[kNumbers] = {
      getpid(),   layers.begin, layers.end, static_cast<std::int64_t>(role),
      num_layers, max_bytes};
  std::vector<std::int64_t> numbers(kNumbers * world);
  SHOAL_RETURN_IF_ERROR(communicator->AllGather(
      BufferOf(absl::MakeConstSpan(mine)), BufferOf(absl::MakeSpan(numbers))));
  SHOAL_RETURN_IF_ERROR(CheckSameFlags(numbers, kNumbers, 4, 5));

  char host[kHostBytes] = {};
  if (gethostname(host, kHostBytes - 1) != 0) host[0] = '?';
  std::vector<char> hosts(kHostBytes * world);
  SHOAL_RETURN_IF_ERROR(communicator->AllGather(
      ConstBuffer{host, kHostBytes, DType::kU8},
      Buffer{hosts.data(), static_cast<std::int64_t>(hosts.size()),
             DType::kU8}));

  std::vector<RankInfo> ranks(world);
  for (int r = 0; r < world; ++r) {
    const std::int64_t* theirs = numbers.data() + kNumbers * r;
    ranks[r].rank = r;
    ranks[r].host = hosts.data() + kHostBytes * r;
    ranks[r].pid = theirs[0];
    ranks[r].layers = {theirs[1], theirs[2]};
    ranks[r].role = static_cast<BlockRole>(theirs[3]);
  }
  return ranks;
}

std::string LayersText(const Range& layers) {
  if (layers.empty()) return "none";
  if (layers.size() == 1) return absl::StrCat(layers.begin);
  return absl::StrCat(layers.begin, "..", layers.end - 1);
}

std::string RanksText(const std::vector<RankInfo>& ranks) {
  int host_width = 0;
  int layers_width = 0;
  for (const RankInfo& rank : ranks) {
    host_width = std::max<int>(host_width, rank.host.size());
    layers_width = std::max<int>(layers_width, LayersText(rank.layers).size());
  }
  const TextTable table({{"rank"},
                         {"host", TextTable::Align::kLeft, host_width},
                         {"pid", TextTable::Align::kRight, 7},
                         {"layers", TextTable::Align::kRight, layers_width},
                         {"role", TextTable::Align::kLeft, 6},
                         {""}});
  std::string text = table.HeaderLine();
  for (const RankInfo& rank : ranks) {
    absl::StrAppend(&text,
                    table.Line({absl::StrCat(rank.rank), rank.host,
                                absl::StrCat(rank.pid), LayersText(rank.layers),
                                absl::StrCat(BlockRoleName(rank.role)),
                                absl::StrCat(Duties(rank.role))}));
  }
  return text;
}

}  // namespace shoal::ring_demo
