// SPDX-License-Identifier: Apache-2.0
//
// What a benchmark found out, as values, as the table of nccl-tests, and as
// JSON.
//
// Pure functions; thread-safe.

#ifndef SHOAL_TOOLS_COMM_BENCH_RESULTS_H_
#define SHOAL_TOOLS_COMM_BENCH_RESULTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"

namespace shoal::comm_bench {

// One half of a row: in place, or out of place.
struct Timing {
  std::int64_t iterations = 0;
  // The median of the iterations on the rank where that is longest.
  double seconds = 0;
  // Bytes a second: size over time, and what a link carries of it.
  double algorithm_bandwidth = 0;
  double bus_bandwidth = 0;
  // Elements, on all ranks, in all checked iterations. Nothing: not checked.
  std::optional<std::int64_t> wrong_elements;
};

struct Row {
  std::int64_t bytes = 0;
  std::int64_t count = 0;  // elements
  // What a half that is missing has not got.
  std::optional<Timing> out_of_place;
  std::optional<Timing> in_place;
};

// The sizes of one collective, element type and reduction.
struct Series {
  std::string collective;
  std::string dtype;
  std::string op;  // "none" where nothing is reduced
  int root = -1;   // -1 where there is none
  // As it was asked for: "auto", or a name.
  std::string algorithm;
  std::string wire = "data";  // how elements travelled
  std::vector<Row> rows;
};

struct Results {
  int world_size = 0;
  std::vector<Series> series;
};

// Over everything that was checked.
std::int64_t WrongElements(const Results& results);

// Over both halves of all rows, as nccl-tests has it; bytes a second.
double AverageBusBandwidth(const Results& results);

// OK, or `DATA_LOSS` that names the first series and size with wrong elements.
absl::Status CheckResults(const Results& results);

// The table: header, a line a row, and the last lines.
std::string HeaderText();
std::string RowText(const Series& series, const Row& row);
std::string FooterText(const Results& results);

// A JSON document: sizes in bytes, times in seconds. `error` is what came of
// the run.
std::string ResultsJson(const Results& results, const absl::Status& error);

// The inverse, for what is drawn of it. `INVALID_ARGUMENT` says what is wrong
// with the document.
absl::StatusOr<Results> ParseResults(const std::string& json);

}  // namespace shoal::comm_bench

#endif  // SHOAL_TOOLS_COMM_BENCH_RESULTS_H_
