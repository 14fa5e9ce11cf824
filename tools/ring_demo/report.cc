// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/ring_demo/report.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/json_writer.h"
#include "shoal/comm/algorithm.h"
#include "shoal/partition/pipeline_partition.h"
#include "shoal/partition/range.h"
#include "shoal/partition/tensor_shard.h"
#include "shoal/tools/common/units.h"
#include "shoal/tools/ring_demo/all_reduce_sweep.h"
#include "shoal/tools/ring_demo/parallel_product.h"
#include "shoal/tools/ring_demo/pipeline_pass.h"
#include "shoal/tools/ring_demo/ranks.h"

namespace shoal::ring_demo {
namespace {

using tools::FormatBytes;

absl::Status WrongElements(std::int64_t count, const std::string& where) {
  if (count == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      count, count == 1 ? " wrong element" : " wrong elements", " in ", where));
}

void Member(absl::string_view name, std::int64_t value, JsonWriter* json) {
  json->Key(name);
  json->Integer(value);
}

void Member(absl::string_view name, double value, JsonWriter* json) {
  json->Key(name);
  json->Number(value);
}

void Member(absl::string_view name, absl::string_view value, JsonWriter* json) {
  json->Key(name);
  json->String(value);
}

void Member(absl::string_view name, const Range& range, JsonWriter* json) {
  json->Key(name);
  json->BeginArray();
  json->Integer(range.begin);
  json->Integer(range.end);
  json->EndArray();
}

// An array, with an object for each element, whose members `write` writes.
template <typename Elements, typename Write>
void Array(absl::string_view name, const Elements& elements, JsonWriter* json,
           const Write& write) {
  json->Key(name);
  json->BeginArray();
  for (const auto& element : elements) {
    json->BeginObject();
    write(element);
    json->EndObject();
  }
  json->EndArray();
}

void WriteRanks(const Report& report, JsonWriter* json) {
  Array("ranks", report.ranks, json, [json](const RankInfo& rank) {
    Member("rank", std::int64_t{rank.rank}, json);
    Member("host", rank.host, json);
    Member("pid", rank.pid, json);
    Member("layers", rank.layers, json);
    Member("role", absl::StrCat(BlockRoleName(rank.role)), json);
  });
}

void WriteAllReduces(const Report& report, JsonWriter* json) {
  Array("all_reduces", report.all_reduces, json,
        [json](const AllReduceFigures& figures) {
          Member("bytes", figures.bytes, json);
          Member("elements", figures.count, json);
          Member("type", "f32", json);
          Member("op", "sum", json);
          Member("algorithm", absl::StrCat(AlgorithmName(figures.algorithm)),
                 json);
          Member("repetitions", figures.repetitions, json);
          Member("median_seconds", figures.seconds, json);
          Member("bus_bytes_per_second", figures.bus_bandwidth, json);
          Member("wrong_elements", figures.wrong_elements, json);
        });
}

void WritePipeline(const Report& report, JsonWriter* json) {
  const PipelineFigures& pipeline = report.pipeline;
  json->Key("pipeline");
  json->BeginObject();
  Member("micro_batches", pipeline.micro_batches, json);
  Member("tokens", pipeline.tokens, json);
  Member("hidden", pipeline.hidden, json);
  Member("seconds", pipeline.seconds, json);
  Member("wrong_elements", pipeline.wrong_elements, json);
  Array("stages", pipeline.stages, json, [json](const StageFigures& stage) {
    Member("rank", std::int64_t{stage.rank}, json);
    Member("layers", stage.layers, json);
    Member("received_bytes", stage.received_bytes, json);
    Member("layers_applied", stage.layers_applied, json);
    Member("sent_bytes", stage.sent_bytes, json);
  });
  json->EndObject();
}

void WriteProducts(const Report& report, JsonWriter* json) {
  Array("products", report.products, json,
        [json](const ProductFigures& product) {
          Member("cut", absl::StrCat(ShardDimName(product.dim)), json);
          Member("rows", product.rows, json);
          Member("inner", product.inner, json);
          Member("columns", product.columns, json);
          Array("shards", product.shards, json,
                [json](const Range& shard) { Member("range", shard, json); });
          Member("seconds", product.seconds, json);
          Member("wrong_elements", product.wrong_elements, json);
        });
}

}  // namespace

absl::Status CheckReport(const Report& report) {
  absl::Status status;
  for (const AllReduceFigures& figures : report.all_reduces) {
    status.Update(WrongElements(
        figures.wrong_elements,
        absl::StrCat("the all-reduces of ", FormatBytes(figures.bytes))));
  }
  status.Update(
      WrongElements(report.pipeline.wrong_elements, "the pipeline pass"));
  for (const ProductFigures& product : report.products) {
    status.Update(WrongElements(
        product.wrong_elements,
        absl::StrCat("the ", absl::StrCat(ShardDimName(product.dim)),
                     "-parallel product")));
  }
  return status;
}

std::string ReportJson(const Report& report, const absl::Status& result) {
  JsonWriter json;
  json.BeginObject();
  json.Key("ok");
  json.Bool(result.ok());
  Member("error", result.ok() ? std::string() : result.ToString(), &json);
  Member("world_size", std::int64_t{report.world_size}, &json);
  Member("layers", report.layers, &json);
  Member("max_bytes", report.max_bytes, &json);
  WriteRanks(report, &json);
  WriteAllReduces(report, &json);
  WritePipeline(report, &json);
  WriteProducts(report, &json);
  json.EndObject();
  return json.text();
}

}  // namespace shoal::ring_demo
