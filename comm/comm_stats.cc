// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/comm_stats.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/comm/call.h"

namespace shoal {
namespace {

void AppendLine(absl::string_view name, const OperationStats& stats,
                std::string* table) {
  absl::StrAppendFormat(table, "%-14s %10d %8d %16d %12.3f %12.3f %12.3f\n",
                        name, stats.succeeded, stats.failed, stats.bytes,
                        absl::ToDoubleMilliseconds(stats.elapsed),
                        absl::ToDoubleMilliseconds(stats.waiting),
                        absl::ToDoubleMilliseconds(stats.moving()));
}

}  // namespace

OperationStats& OperationStats::operator+=(const OperationStats& other) {
  succeeded += other.succeeded;
  failed += other.failed;
  bytes += other.bytes;
  elapsed += other.elapsed;
  waiting += other.waiting;
  return *this;
}

OperationStats CommStats::Total() const {
  OperationStats total;
  for (const auto& [kind, stats] : by_kind) total += stats;
  return total;
}

std::string CommStats::ToString() const {
  std::string table = absl::StrFormat("%-14s %10s %8s %16s %12s %12s %12s\n",
                                      "call", "succeeded", "failed", "bytes",
                                      "elapsed/ms", "waiting/ms", "moving/ms");
  for (const auto& [kind, stats] : by_kind) {
    AppendLine(CallKindName(kind), stats, &table);
  }
  AppendLine("all", Total(), &table);
  return table;
}

}  // namespace shoal
