// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/parallel_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tensor_parallel_config.h"
#include "shoal/partition/tensor_shard.h"
#include "shoal/tools/common/text_table.h"
#include "shoal/tools/common/units.h"

namespace shoal::ring_demo {
namespace {

using tools::FormatSeconds;
using tools::TextTable;

constexpr std::int64_t kRows = 13;
constexpr std::int64_t kInner = 131;
constexpr std::int64_t kColumns = 197;

// Gathers the columns of all ranks. AllGather takes parts of one length, so
// that every part is as long as the longest shard and filled up at its end.
absl::StatusOr<std::vector<float>> GatherColumns(
    Communicator* communicator, const std::vector<Range>& shards,
    const std::vector<float>& mine) {
  std::int64_t longest = 0;
  for (const Range& shard : shards) longest = std::max(longest, shard.size());
  const std::int64_t part = kRows * longest;
  std::vector<float> padded = mine;
  padded.resize(part);
  std::vector<float> gathered(part * communicator->world_size());
  SHOAL_RETURN_IF_ERROR(
      communicator->AllGather(BufferOf(absl::MakeConstSpan(padded)),
                              BufferOf(absl::MakeSpan(gathered))));
  std::vector<float> whole(kRows * kColumns);
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const Range& shard = shards[rank];
    for (std::int64_t i = 0; i < kRows; ++i) {
      const float* row = gathered.data() + rank * part + i * shard.size();
      std::copy_n(row, shard.size(), whole.data() + i * kColumns + shard.begin);
    }
  }
  return whole;
}

absl::StatusOr<std::vector<float>> ColumnParallel(
    Communicator* communicator, const std::vector<Range>& shards) {
  const std::vector<float> mine =
      PartOfProduct(kRows, {0, kInner}, shards[communicator->rank()]);
  return GatherColumns(communicator, shards, mine);
}

absl::StatusOr<std::vector<float>> RowParallel(
    Communicator* communicator, const std::vector<Range>& shards) {
  std::vector<float> sum =
      PartOfProduct(kRows, shards[communicator->rank()], {0, kColumns});
  SHOAL_RETURN_IF_ERROR(
      communicator->AllReduce(BufferOf(absl::MakeSpan(sum)), ReduceOp::kSum));
  return sum;
}

// "32, and 35 on the last", "131".
std::string ShardsText(const std::vector<Range>& shards) {
  const std::int64_t first = shards.front().size();
  const std::int64_t last = shards.back().size();
  if (first == last) return absl::StrCat(first);
  return absl::StrCat(first, ", and ", last, " on the last");
}

}  // namespace

float ProductX(std::int64_t i, std::int64_t k) {
  return static_cast<float>((3 * i + 5 * k) % 17 - 8);
}

float ProductW(std::int64_t k, std::int64_t j) {
  return static_cast<float>((7 * k + 11 * j) % 19 - 9);
}

std::vector<float> PartOfProduct(std::int64_t rows, const Range& inner,
                                 const Range& columns) {
  std::vector<float> part(rows * columns.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    float* row = part.data() + i * columns.size();
    for (std::int64_t k = inner.begin; k < inner.end; ++k) {
      const float x = ProductX(i, k);
      for (std::int64_t j = columns.begin; j < columns.end; ++j) {
        row[j - columns.begin] += x * ProductW(k, j);
      }
    }
  }
  return part;
}

absl::StatusOr<ProductFigures> RunParallelProduct(Communicator* communicator,
                                                  ShardDim dim) {
  ProductFigures figures;
  figures.dim = dim;
  figures.rows = kRows;
  figures.inner = kInner;
  figures.columns = kColumns;
  SHOAL_ASSIGN_OR_RETURN(
      const TensorParallelConfig config,
      TensorParallelConfig::Create(communicator->world_size()));
  for (int rank = 0; rank < communicator->world_size(); ++rank) {
    SHOAL_ASSIGN_OR_RETURN(
        const Range shard,
        config.ShardRange(rank, dim == ShardDim::kColumn ? kColumns : kInner,
                          dim));
    figures.shards.push_back(shard);
  }

  SHOAL_RETURN_IF_ERROR(communicator->Barrier());
  const Stopwatch stopwatch;
  SHOAL_ASSIGN_OR_RETURN(const std::vector<float> product,
                         dim == ShardDim::kColumn
                             ? ColumnParallel(communicator, figures.shards)
                             : RowParallel(communicator, figures.shards));
  figures.seconds = stopwatch.Seconds();

  const std::vector<float> whole =
      PartOfProduct(kRows, {0, kInner}, {0, kColumns});
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!(product[i] == whole[i])) ++figures.wrong_elements;
  }
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
      BufferOf(absl::MakeSpan(&figures.wrong_elements, 1)), ReduceOp::kSum));
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
      BufferOf(absl::MakeSpan(&figures.seconds, 1)), ReduceOp::kMax));
  return figures;
}

std::string ProductsText(const std::vector<ProductFigures>& products) {
  using Align = TextTable::Align;
  const TextTable table({{"W is cut by", Align::kLeft},
                         {"X", Align::kLeft, 8},
                         {"W", Align::kLeft, 9},
                         {"a rank has", Align::kLeft, 22},
                         {"then", Align::kLeft, 10},
                         {"time", Align::kRight, 8},
                         {"wrong"}});
  std::string text = table.HeaderLine();
  for (const ProductFigures& product : products) {
    const bool by_column = product.dim == ShardDim::kColumn;
    absl::StrAppend(
        &text, table.Line({by_column ? "columns" : "rows",
                           absl::StrCat(product.rows, " x ", product.inner),
                           absl::StrCat(product.inner, " x ", product.columns),
                           ShardsText(product.shards),
                           by_column ? "all-gather" : "all-reduce",
                           FormatSeconds(product.seconds),
                           absl::StrCat(product.wrong_elements)}));
  }
  return text;
}

}  // namespace shoal::ring_demo
