// SPDX-License-Identifier: Apache-2.0
//
// How fast reductions are, beside memcpy and the plain loop in the same run:
//
//   bazel run //comm:reduce_benchmark
//
// The argument is the size of each buffer in KiB. bytes_per_second counts the
// elements of one buffer, so that a sum in place, which reads two buffers and
// writes one, moves three times as much, and memcpy twice.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/reduce_reference.h"

namespace shoal::internal {
namespace {

using Combine = void (*)(DType, ReduceOp, const void*, const void*, void*,
                         std::int64_t);
using Finish = void (*)(DType, ReduceOp, void*, std::int64_t, int);

std::size_t BytesOf(const benchmark::State& state) {
  return static_cast<std::size_t>(state.range(0)) * 1024;
}

void Report(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(BytesOf(state)));
}

// Zeros stay zeros under every op, so that no repetition meets other numbers
// than the one before.
void RunCombine(benchmark::State& state, Combine combine, DType dtype,
                ReduceOp op) {
  const std::vector<char> first(BytesOf(state));
  std::vector<char> second(BytesOf(state));
  const auto count =
      static_cast<std::int64_t>(BytesOf(state) / DTypeSize(dtype));
  for (auto _ : state) {
    combine(dtype, op, first.data(), second.data(), second.data(), count);
    benchmark::DoNotOptimize(second.data());
    benchmark::ClobberMemory();
  }
  Report(state);
}

void RunFinish(benchmark::State& state, Finish finish, DType dtype) {
  std::vector<char> data(BytesOf(state));
  const auto count =
      static_cast<std::int64_t>(BytesOf(state) / DTypeSize(dtype));
  for (auto _ : state) {
    finish(dtype, ReduceOp::kAverage, data.data(), count, 3);
    benchmark::DoNotOptimize(data.data());
    benchmark::ClobberMemory();
  }
  Report(state);
}

void RunMemcpy(benchmark::State& state) {
  const std::vector<char> from(BytesOf(state));
  std::vector<char> to(BytesOf(state));
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  Report(state);
}

// In the first-level cache, in the second-level cache (a slice of the engine),
// and in memory.
void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int kib : {4, 128, 65536}) benchmark->Arg(kib);
}

void Register() {
  benchmark::RegisterBenchmark("memcpy", RunMemcpy)->Apply(Sizes);
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllReduceOps) {
      const std::string name =
          absl::StrCat(DTypeName(dtype), "/", ReduceOpName(op));
      if (op == ReduceOp::kAverage) {
        benchmark::RegisterBenchmark(absl::StrCat(name, "/kernel").c_str(),
                                     RunFinish, FinishReduce, dtype)
            ->Apply(Sizes);
        benchmark::RegisterBenchmark(absl::StrCat(name, "/loop").c_str(),
                                     RunFinish, ReferenceFinishReduce, dtype)
            ->Apply(Sizes);
        continue;
      }
      benchmark::RegisterBenchmark(absl::StrCat(name, "/kernel").c_str(),
                                   RunCombine, Reduce, dtype, op)
          ->Apply(Sizes);
      benchmark::RegisterBenchmark(absl::StrCat(name, "/loop").c_str(),
                                   RunCombine, ReferenceReduce, dtype, op)
          ->Apply(Sizes);
    }
  }
}

}  // namespace
}  // namespace shoal::internal

int main(int argc, char** argv) {
  shoal::internal::Register();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
