// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/wire_reference.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/encoding.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/reduce_reference.h"
#include "shoal/comm/schedule.h"
#include "shoal/comm/wire_format.h"

namespace shoal::internal {
namespace {

Encoding EncodingOf(WireFormat wire) {
  switch (wire) {
    case WireFormat::kBF16:
      return Encoding::RoundedTo(DType::kBF16);
    case WireFormat::kQ8_0:
      return Encoding::Q8_0();
    case WireFormat::kAsData:
    case WireFormat::kF32:
      break;
  }
  return Encoding::AsTheyAre(DType::kF32);
}

class Folder {
 public:
  Folder(const WireCase& test, const std::vector<Floats>& inputs)
      : test_(test), inputs_(inputs), encoding_(EncodingOf(test.wire)) {}

  int world_size() const { return test_.world_size; }

  // ((x[last+1] op x[last+2]) op ...) op x[last], of one chunk.
  Floats Around(int last, const BufferRange& chunk) const {
    const int n = world_size();
    Floats value = Part((last + 1) % n, chunk);
    for (int hop = 2; hop <= n; ++hop) {
      value = Combine(Round(std::move(value)), Part((last + hop) % n, chunk));
    }
    return Complete(std::move(value));
  }

  // ((x[0] op x[1]) op ...), on the rank that has `owner`'s operand; -1: all
  // operands come as they travel.
  Floats Ascending(int owner, const BufferRange& chunk) const {
    Floats value;
    for (int rank = 0; rank < world_size(); ++rank) {
      Floats operand = Part(rank, chunk);
      if (rank != owner) operand = Round(std::move(operand));
      value =
          rank == 0 ? std::move(operand) : Combine(std::move(value), operand);
    }
    return Complete(std::move(value));
  }

  Floats Balanced() const {
    const int n = world_size();
    int power = 1;
    while (2 * power <= n) power *= 2;
    std::vector<Floats> values;
    for (int rank = 0; rank < n; ++rank) {
      if (rank < 2 * (n - power)) {
        values.push_back(
            Combine(Round(inputs_[rank]), Round(inputs_[rank + 1])));
        ++rank;
      } else {
        values.push_back(inputs_[rank]);
      }
    }
    while (values.size() > 1) {
      for (std::size_t k = 0; 2 * k < values.size(); ++k) {
        values[k] = Combine(Round(values[2 * k]), Round(values[2 * k + 1]));
      }
      values.resize(values.size() / 2);
    }
    return Complete(std::move(values[0]));
  }

  // What is passed on.
  Floats Round(Floats value) const {
    if (world_size() > 1) {
      encoding_.RoundTrip(value.data(),
                          static_cast<std::int64_t>(value.size()));
    }
    return value;
  }

 private:
  Floats Part(int rank, const BufferRange& chunk) const {
    return Floats(inputs_[rank].begin() + chunk.begin,
                  inputs_[rank].begin() + chunk.end());
  }
  Floats Combine(Floats first, const Floats& second) const {
    ReferenceReduce(DType::kF32, test_.op, first.data(), second.data(),
                    first.data(), static_cast<std::int64_t>(first.size()));
    return first;
  }
  Floats Complete(Floats value) const {
    ReferenceFinishReduce(DType::kF32, test_.op, value.data(),
                          static_cast<std::int64_t>(value.size()),
                          world_size());
    return value;
  }

  const WireCase& test_;
  const std::vector<Floats>& inputs_;
  const Encoding encoding_;
};

}  // namespace

std::string WireCase::ToString() const {
  return absl::StrCat("wire ", absl::StrCat(WireFormatName(wire)), ", ",
                      absl::StrCat(AlgorithmName(algorithm)), ", ",
                      absl::StrCat(ReduceOpName(op)), " x ", count, " on ",
                      world_size, " ranks");
}

Floats WireInput(int rank, std::int64_t count) {
  Floats values;
  values.reserve(static_cast<std::size_t>(count));
  std::uint32_t state = 12345u + static_cast<std::uint32_t>(rank) * 7919u;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const float fraction = static_cast<float>(state >> 8) / 16777216.0f;
    values.push_back((fraction - 0.4f) * static_cast<float>(1 + i % 300));
  }
  return values;
}

Floats ExpectedAllReduce(const WireCase& test,
                         const std::vector<Floats>& inputs) {
  const Folder folder(test, inputs);
  const BufferRange whole = {BufferId::kOutput, 0, test.count};
  if (test.algorithm == Algorithm::kRecursiveDoubling) {
    return folder.Round(folder.Balanced());
  }
  if (test.algorithm == Algorithm::kOneShot) {
    // A world of one sends nothing.
    return folder.Ascending(test.world_size == 1 ? 0 : -1, whole);
  }
  Floats result;
  for (int c = 0; c < test.world_size; ++c) {
    const BufferRange part =
        EvenPart(BufferId::kOutput, test.count, test.world_size, c);
    const Floats chunk = folder.Round(test.algorithm == Algorithm::kDirect
                                          ? folder.Ascending(c, part)
                                          : folder.Around(c, part));
    result.insert(result.end(), chunk.begin(), chunk.end());
  }
  return result;
}

Floats ExpectedReduceScatter(const WireCase& test,
                             const std::vector<Floats>& inputs, int rank) {
  const Folder folder(test, inputs);
  const BufferRange part = {BufferId::kInput, rank * test.count, test.count};
  return test.algorithm == Algorithm::kDirect ? folder.Ascending(rank, part)
                                              : folder.Around(rank, part);
}

Floats ExpectedReduce(const WireCase& test, const std::vector<Floats>& inputs,
                      int root) {
  const Folder folder(test, inputs);
  const BufferRange whole = {BufferId::kInput, 0, test.count};
  return test.algorithm == Algorithm::kLinear ? folder.Ascending(root, whole)
                                              : folder.Around(root, whole);
}

}  // namespace shoal::internal
