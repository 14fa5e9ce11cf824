// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/results.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "shoal/base/status_macros.h"
#include "shoal/tools/common/json_writer.h"

namespace shoal::comm_bench {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;
using tools::JsonWriter;

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

// Reads a document member by member, and remembers what was not there.
class Reader {
 public:
  double Number(const Struct& object, const char* name) {
    const Value* value = Find(object, name, Value::kNumberValue);
    return value == nullptr ? 0 : value->number_value();
  }
  std::int64_t Integer(const Struct& object, const char* name) {
    const double number = Number(object, name);
    if (std::abs(number) < 9e15) return static_cast<std::int64_t>(number);
    Complain(name, "is no whole number");
    return 0;
  }
  std::string String(const Struct& object, const char* name) {
    const Value* value = Find(object, name, Value::kStringValue);
    return value == nullptr ? "" : value->string_value();
  }
  // Calls `use` for every object in an array.
  template <typename Use>
  void Array(const Struct& object, const char* name, const Use& use) {
    const Value* array = Find(object, name, Value::kListValue);
    if (array == nullptr) return;
    for (const Value& value : array->list_value().values()) {
      if (value.kind_case() != Value::kStructValue) {
        Complain(name, "has an element that is no object");
        return;
      }
      use(value.struct_value());
    }
  }
  std::optional<Timing> ReadTiming(const Struct& row, const char* name) {
    const auto found = row.fields().find(name);
    if (found == row.fields().end()) return std::nullopt;
    const Struct& object = found->second.struct_value();
    Timing timing;
    timing.iterations = Integer(object, "iterations");
    timing.seconds = Number(object, "median_seconds");
    timing.algorithm_bandwidth = Number(object, "algorithm_bytes_per_second");
    timing.bus_bandwidth = Number(object, "bus_bytes_per_second");
    if (object.fields().contains("wrong_elements")) {
      timing.wrong_elements = Integer(object, "wrong_elements");
    }
    return timing;
  }

  const absl::Status& status() const { return status_; }

 private:
  const Value* Find(const Struct& object, const char* name,
                    Value::KindCase kind) {
    const auto found = object.fields().find(name);
    if (found != object.fields().end() && found->second.kind_case() == kind) {
      return &found->second;
    }
    Complain(name, "is missing or of another type");
    return nullptr;
  }
  void Complain(absl::string_view name, absl::string_view what) {
    status_.Update(
        absl::InvalidArgumentError(absl::StrCat("\"", name, "\" ", what)));
  }

  absl::Status status_;
};

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
    status.Update(absl::DataLossError(
        absl::StrCat(wrong, wrong == 1 ? " wrong element" : " wrong elements",
                     " in ", series.collective, "(", series.dtype, " x ",
                     row.count, ", ", series.op, ", ", series.algorithm, ")")));
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
  Struct document;
  if (!google::protobuf::util::JsonStringToMessage(json, &document).ok()) {
    return absl::InvalidArgumentError("this is no JSON document");
  }
  Reader reader;
  Results results;
  results.world_size = static_cast<int>(reader.Integer(document, "world_size"));
  reader.Array(document, "series", [&](const Struct& object) {
    Series series;
    series.collective = reader.String(object, "collective");
    series.dtype = reader.String(object, "type");
    series.op = reader.String(object, "op");
    series.root = static_cast<int>(reader.Integer(object, "root"));
    series.algorithm = reader.String(object, "algorithm");
    reader.Array(object, "rows", [&](const Struct& row_object) {
      Row row;
      row.bytes = reader.Integer(row_object, "bytes");
      row.count = reader.Integer(row_object, "elements");
      row.out_of_place = reader.ReadTiming(row_object, "out_of_place");
      row.in_place = reader.ReadTiming(row_object, "in_place");
      series.rows.push_back(std::move(row));
    });
    results.series.push_back(std::move(series));
  });
  SHOAL_RETURN_IF_ERROR(reader.status());
  return results;
}

}  // namespace shoal::comm_bench
