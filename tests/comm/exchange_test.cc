// SPDX-License-Identifier: Apache-2.0
//
// AllToAll, parts of unequal lengths, strings, and several buffers in one
// AllReduce, between processes.

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/call_options.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/tests/comm/test_vector.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 2, 7, 1009, 30'011};

std::int64_t SumOf(const std::vector<std::int64_t>& counts, std::size_t end) {
  return std::accumulate(counts.begin(), counts.begin() + end, std::int64_t{0});
}

absl::Status CheckAllToAll(Communicator* communicator, DType dtype,
                           std::int64_t count, bool in_place) {
  const int world = communicator->world_size();
  const int rank = communicator->rank();
  const int misalignment = static_cast<int>(count % 2);
  TestVector input(dtype, world * count, misalignment);
  TestVector output(dtype, world * count, misalignment);
  input.Fill(rank);
  if (in_place) {
    if (count > 0) {
      std::memcpy(output.data(), input.data(), input.size_bytes());
    }
    SHOAL_RETURN_IF_ERROR(
        communicator->AllToAll(output.buffer(), output.buffer()));
  } else {
    const std::uint64_t before = input.Hash();
    SHOAL_RETURN_IF_ERROR(
        communicator->AllToAll(input.const_buffer(), output.buffer()));
    if (input.Hash() != before) {
      return absl::DataLossError("AllToAll wrote to its input");
    }
  }
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  for (int from = 0; from < world; ++from) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (output.Bits(from * count + i) ==
          InputBits(dtype, from, rank * count + i)) {
        continue;
      }
      return absl::DataLossError(
          absl::StrCat("AllToAll of ", absl::StrCat(DTypeName(dtype)), " x ",
                       count, in_place ? ", in place" : "", ": element ", i,
                       " from rank ", from, " is wrong"));
    }
  }
  return absl::OkStatus();
}

// What `from` sends to `to`: nothing here and there.
std::int64_t Uneven(int from, int to, std::int64_t count) {
  return (from * 7 + to * 3 + from * to) % 5 * count / 2;
}

absl::Status CheckAllToAllV(Communicator* communicator, DType dtype,
                            std::int64_t count) {
  const int world = communicator->world_size();
  const int rank = communicator->rank();
  std::vector<std::vector<std::int64_t>> sent(world);
  for (int from = 0; from < world; ++from) {
    for (int to = 0; to < world; ++to) {
      sent[from].push_back(Uneven(from, to, count));
    }
  }
  std::vector<std::int64_t> received;
  for (int from = 0; from < world; ++from) received.push_back(sent[from][rank]);
  TestVector input(dtype, SumOf(sent[rank], world), 1);
  TestVector output(dtype, SumOf(received, world), 1);
  input.Fill(rank);
  SHOAL_RETURN_IF_ERROR(communicator->AllToAllV(
      input.const_buffer(), sent[rank], output.buffer(), received));
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  std::int64_t at = 0;
  for (int from = 0; from < world; ++from) {
    const std::int64_t begin = SumOf(sent[from], rank);
    for (std::int64_t i = 0; i < received[from]; ++i, ++at) {
      if (output.Bits(at) == InputBits(dtype, from, begin + i)) continue;
      return absl::DataLossError(absl::StrCat(
          "AllToAllV of ", absl::StrCat(DTypeName(dtype)), " around ", count,
          ": element ", i, " from rank ", from, " is wrong"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAllGatherV(Communicator* communicator, DType dtype,
                             Algorithm algorithm, std::int64_t count,
                             bool in_place) {
  const int world = communicator->world_size();
  const int rank = communicator->rank();
  std::vector<std::int64_t> counts;
  for (int r = 0; r < world; ++r) counts.push_back(Uneven(r, r, count));
  TestVector input(dtype, counts[rank], 1);
  TestVector output(dtype, SumOf(counts, world), 1);
  input.Fill(rank);
  ConstBuffer mine = input.const_buffer();
  if (in_place) {
    const Buffer part = output.part(SumOf(counts, rank), counts[rank]);
    if (part.count > 0) {
      std::memcpy(part.data, input.data(), input.size_bytes());
    }
    mine = part;
  }
  CallOptions options;
  options.algorithm = algorithm;
  SHOAL_RETURN_IF_ERROR(
      communicator->AllGatherV(mine, output.buffer(), counts, options));
  SHOAL_RETURN_IF_ERROR(output.CheckGuards());
  std::int64_t at = 0;
  for (int from = 0; from < world; ++from) {
    for (std::int64_t i = 0; i < counts[from]; ++i, ++at) {
      if (output.Bits(at) == InputBits(dtype, from, i)) continue;
      return absl::DataLossError(
          absl::StrCat("AllGatherV of ", absl::StrCat(DTypeName(dtype)),
                       " around ", count, in_place ? ", in place" : "",
                       ": element ", i, " of rank ", from, "'s part is wrong"));
    }
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(Exchanges) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  for (const DType dtype : kAllDTypes) {
    for (const std::int64_t count : kCounts) {
      SHOAL_RETURN_IF_ERROR(CheckAllToAllV(communicator.get(), dtype, count));
      for (const bool in_place : {false, true}) {
        SHOAL_RETURN_IF_ERROR(
            CheckAllToAll(communicator.get(), dtype, count, in_place));
        for (const Algorithm algorithm :
             {Algorithm::kRing, Algorithm::kDirect}) {
          SHOAL_RETURN_IF_ERROR(CheckAllGatherV(communicator.get(), dtype,
                                                algorithm, count, in_place));
        }
      }
    }
  }
  return absl::OkStatus();
}

std::string Letter(int root, std::size_t length) {
  std::string letter;
  for (std::size_t i = 0; i < length; ++i) {
    letter.push_back(static_cast<char>((i * 7 + root * 31) % 256));
  }
  return letter;
}

SHOAL_RANK_BODY(Strings) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  for (int root = 0; root < context.world_size; ++root) {
    for (const std::size_t length : {0, 1, 17, 100'003}) {
      // What was there before is longer, or shorter.
      std::string bytes = context.rank == root
                              ? Letter(root, length)
                              : std::string(50 * context.rank, 'x');
      SHOAL_RETURN_IF_ERROR(communicator->BroadcastString(&bytes, root));
      if (bytes == Letter(root, length)) continue;
      return absl::DataLossError(absl::StrCat("a string of ", length,
                                              " bytes from root ", root,
                                              " is another one"));
    }
  }
  return absl::OkStatus();
}

SHOAL_RANK_BODY(Coalesced) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  for (const DType dtype : kAllDTypes) {
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{5}, {0, 0}, {3, 0, 1009}, {1, 20'011, 7}}) {
      const std::int64_t total = SumOf(counts, counts.size());
      TestVector whole(dtype, total);
      whole.Fill(context.rank);
      std::vector<TestVector> parts;
      std::vector<Buffer> buffers;
      const std::uint8_t* from = whole.data();
      for (const std::int64_t count : counts) {
        parts.emplace_back(dtype, count, static_cast<int>(count % 2));
      }
      for (TestVector& part : parts) {
        if (part.count() > 0) {
          std::memcpy(part.data(), from, part.size_bytes());
        }
        from += part.size_bytes();
        buffers.push_back(part.buffer());
      }
      CallOptions options;
      options.algorithm = Algorithm::kRing;
      SHOAL_RETURN_IF_ERROR(
          communicator->AllReduceCoalesced(buffers, ReduceOp::kSum, options));
      std::int64_t at = 0;
      for (const TestVector& part : parts) {
        SHOAL_RETURN_IF_ERROR(part.CheckGuards());
        for (std::int64_t i = 0; i < part.count(); ++i, ++at) {
          if (part.Bits(i) == AllReduceBits(dtype, ReduceOp::kSum,
                                            Algorithm::kRing,
                                            context.world_size, total, at)) {
            continue;
          }
          return absl::DataLossError(
              absl::StrCat("element ", at, " of the coalesced AllReduce of ",
                           absl::StrCat(DTypeName(dtype)), " is wrong"));
        }
      }
    }
  }
  return absl::OkStatus();
}

class ExchangeTest : public ::testing::TestWithParam<int> {};

TEST_P(ExchangeTest, EqualAndUnequalParts) {
  EXPECT_TRUE(WorldSucceeds("Exchanges", GetParam()));
}
TEST_P(ExchangeTest, Strings) {
  EXPECT_TRUE(WorldSucceeds("Strings", GetParam()));
}
TEST_P(ExchangeTest, SeveralBuffersInOne) {
  EXPECT_TRUE(WorldSucceeds("Coalesced", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, ExchangeTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace shoal::tests
