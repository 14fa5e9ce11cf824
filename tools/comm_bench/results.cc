// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/results.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/json_util.h"
#include "shoal/base/json_writer.h"
#include "shoal/tools/comm_bench/results.pb.h"

namespace shoal::comm_bench {
namespace {

// Calls `use` for every half of every row.
template <typename Use>
void ForTimings(const Results& results, const Use& use) {
  for (const Series& series : results.series) {
    for (const Row& row : series.rows) {
      if (row.out_of_place.has_value()) use(series, row, *row.out_of_place);
      if (row.in_place.has_value()) use(series, row, *row.in_place);
    }
  }
}

std::string TimeText(double seconds) {
  const double us = seconds * 1e6;
  if (us >= 10'000) return absl::StrFormat("%7.0f", us);
  if (us >= 100) return absl::StrFormat("%7.1f", us);
  return absl::StrFormat("%7.2f", us);
}

std::string HalfText(const std::optional<Timing>& timing) {
  if (!timing.has_value()) {
    return absl::StrFormat("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  }
  return absl::StrFormat(
      "  %7s  %6.2f  %6.2f  %6s", TimeText(timing->seconds),
      timing->algorithm_bandwidth / 1e9, timing->bus_bandwidth / 1e9,
      timing->wrong_elements.has_value() ? absl::StrCat(*timing->wrong_elements)
                                         : "N/A");
}

void WriteTiming(const char* name, const std::optional<Timing>& timing,
                 JsonWriter* json) {
  if (!timing.has_value()) return;
  json->Key(name);
  json->BeginObject();
  json->Key("iterations");
  json->Integer(timing->iterations);
  json->Key("median_seconds");
  json->Number(timing->seconds);
  json->Key("algorithm_bytes_per_second");
  json->Number(timing->algorithm_bandwidth);
  json->Key("bus_bytes_per_second");
  json->Number(timing->bus_bandwidth);
  if (timing->wrong_elements.has_value()) {
    json->Key("wrong_elements");
    json->Integer(*timing->wrong_elements);
  }
  json->EndObject();
}

void WriteSeries(const Series& series, JsonWriter* json) {
  json->BeginObject();
  json->Key("collective");
  json->String(series.collective);
  json->Key("type");
  json->String(series.dtype);
  json->Key("op");
  json->String(series.op);
  json->Key("root");
  json->Integer(series.root);
  json->Key("algorithm");
  json->String(series.algorithm);
  json->Key("wire");
  json->String(series.wire);
  json->Key("rows");
  json->BeginArray();
  for (const Row& row : series.rows) {
    json->BeginObject();
    json->Key("bytes");
    json->Integer(row.bytes);
    json->Key("elements");
    json->Integer(row.count);
    WriteTiming("out_of_place", row.out_of_place, json);
    WriteTiming("in_place", row.in_place, json);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

std::optional<Timing> ReadTiming(bool is_there, const TimingMessage& message) {
  if (!is_there) return std::nullopt;
  Timing timing;
  timing.iterations = message.iterations();
  timing.seconds = message.median_seconds();
  timing.algorithm_bandwidth = message.algorithm_bytes_per_second();
  timing.bus_bandwidth = message.bus_bytes_per_second();
  if (message.has_wrong_elements()) {
    timing.wrong_elements = message.wrong_elements();
  }
  return timing;
}

Series ReadSeries(const SeriesMessage& message) {
  Series series;
  series.collective = message.collective();
  series.dtype = message.type();
  series.op = message.op();
  series.root = message.root();
  series.algorithm = message.algorithm();
  if (!message.wire().empty()) series.wire = message.wire();
  for (const RowMessage& row : message.rows()) {
    series.rows.push_back(
        {row.bytes(), row.elements(),
         ReadTiming(row.has_out_of_place(), row.out_of_place()),
         ReadTiming(row.has_in_place(), row.in_place())});
  }
  return series;
}

}  // namespace

std::int64_t WrongElements(const Results& results) {
  std::int64_t wrong = 0;
  ForTimings(results, [&wrong](const Series&, const Row&, const Timing& t) {
    wrong += t.wrong_elements.value_or(0);
  });
  return wrong;
}

double AverageBusBandwidth(const Results& results) {
  double sum = 0;
  std::int64_t timings = 0;
  ForTimings(results, [&](const Series&, const Row&, const Timing& timing) {
    sum += timing.bus_bandwidth;
    ++timings;
  });
  return timings == 0 ? 0 : sum / static_cast<double>(timings);
}

absl::Status CheckResults(const Results& results) {
  absl::Status status;
  ForTimings(results, [&status](const Series& series, const Row& row,
                                const Timing& timing) {
    const std::int64_t wrong = timing.wrong_elements.value_or(0);
    if (wrong == 0) return;
    status.Update(absl::DataLossError(absl::StrCat(
        wrong, wrong == 1 ? " wrong element" : " wrong elements", " in ",
        series.collective, "(", series.dtype, " x ", row.count, ", ", series.op,
        ", ", series.algorithm, series.wire == "data" ? "" : ", wire ",
        series.wire == "data" ? "" : series.wire, ")")));
  });
  return status;
}

std::string HeaderText() {
  return absl::StrFormat(
      "#%74s%31s\n"
      "#%11s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n"
      "#%11s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n",
      "out-of-place", "in-place", "size", "count", "type", "redop", "root",
      "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong",
      "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)",
      "(GB/s)", "(GB/s)", "");
}

std::string RowText(const Series& series, const Row& row) {
  return absl::StrCat(
      absl::StrFormat("%12d  %12d  %8s  %6s  %6d", row.bytes, row.count,
                      series.dtype, series.op, series.root),
      HalfText(row.out_of_place), HalfText(row.in_place), "\n");
}

std::string FooterText(const Results& results) {
  const std::int64_t wrong = WrongElements(results);
  return absl::StrFormat(
      "# Out of bounds values : %d %s\n"
      "# Avg bus bandwidth    : %g\n",
      wrong, wrong == 0 ? "OK" : "FAILED", AverageBusBandwidth(results) / 1e9);
}

std::string ResultsJson(const Results& results, const absl::Status& error) {
  JsonWriter json;
  json.BeginObject();
  json.Key("ok");
  json.Bool(error.ok());
  json.Key("error");
  json.String(error.ok() ? "" : error.ToString());
  json.Key("world_size");
  json.Integer(results.world_size);
  json.Key("average_bus_bytes_per_second");
  json.Number(AverageBusBandwidth(results));
  json.Key("series");
  json.BeginArray();
  for (const Series& series : results.series) WriteSeries(series, &json);
  json.EndArray();
  json.EndObject();
  return json.text();
}

absl::StatusOr<Results> ParseResults(const std::string& json) {
  ResultsMessage message;
  if (!google::protobuf::util::JsonStringToMessage(json, &message).ok()) {
    return absl::InvalidArgumentError("it is no JSON document of that form");
  }
  if (message.world_size() < 1) {
    return absl::InvalidArgumentError("there is no \"world_size\"");
  }
  Results results;
  results.world_size = message.world_size();
  for (const SeriesMessage& series : message.series()) {
    results.series.push_back(ReadSeries(series));
  }
  return results;
}

}  // namespace shoal::comm_bench
