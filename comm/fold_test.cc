// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/fold.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/user_reduction.h"

namespace shoal::internal {
namespace {

constexpr int kOperands = 5;

// Bytes of elements that are small numbers in every type, at an odd address.
std::string Elements(DType dtype, std::int64_t count, int salt) {
  std::string bytes(1, '\0');
  for (std::int64_t i = 0; i < count; ++i) {
    const int value = static_cast<int>((i * 7 + salt * 13) % 5) - 2;
    const auto append = [&](auto element) {
      bytes.append(reinterpret_cast<const char*>(&element), sizeof(element));
    };
    switch (dtype) {
      case DType::kF32:
        append(static_cast<float>(value));
        break;
      case DType::kF64:
        append(static_cast<double>(value));
        break;
      case DType::kF16:
        append(Float16(static_cast<float>(value)));
        break;
      case DType::kBF16:
        append(BFloat16(static_cast<float>(value)));
        break;
      case DType::kI8:
        append(static_cast<std::int8_t>(value));
        break;
      case DType::kU8:
        append(static_cast<std::uint8_t>(value));
        break;
      case DType::kI32:
        append(static_cast<std::int32_t>(value));
        break;
      case DType::kI64:
        append(static_cast<std::int64_t>(value));
        break;
    }
  }
  return bytes;
}

// Numbers that every type holds exactly: one rounding or several are the same.
TEST(FoldTest, IsTheReductionsOneAfterAnother) {
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllReduceOps) {
      if (!ReduceOpTakes(op, dtype)) continue;
      // Where a division rounds, it matters that it does once.
      if (op == ReduceOp::kAverage && IsFloatingPoint(dtype)) continue;
      for (const std::int64_t count : {0, 1, 7, 1023, 1024, 1025, 3000}) {
        for (int place = -1; place < kOperands; ++place) {
          std::vector<std::string> memory;
          for (int i = 0; i < kOperands; ++i) {
            memory.push_back(Elements(dtype, count, i));
          }
          std::string expected = memory[0];
          for (int i = 1; i < kOperands; ++i) {
            Reduce(dtype, op, expected.data() + 1, memory[i].data() + 1,
                   expected.data() + 1, count);
          }
          FinishReduce(dtype, op, expected.data() + 1, count, kOperands);
          std::vector<const char*> operands;
          for (const std::string& each : memory) {
            operands.push_back(each.data() + 1);
          }
          std::string elsewhere = Elements(dtype, count, 99);
          std::string& out = place < 0 ? elsewhere : memory[place];
          FoldReduce({dtype, op, nullptr, /*completes=*/true, kOperands},
                     operands, out.data() + 1, count);
          EXPECT_EQ(out, expected) << dtype << " " << op << " " << count
                                   << " over operand " << place;
        }
      }
    }
  }
}

template <typename T>
void ExpectOneRounding() {
  // Each small term alone is lost beside 1 in sixteen bits; together they are
  // not.
  const float step = DTypeOf<T>() == DType::kF16 ? 0x1p-12F : 0x1p-9F;
  const T one(1.0F);
  const T small(step);
  std::vector<const char*> operands(1, reinterpret_cast<const char*>(&one));
  operands.resize(9, reinterpret_cast<const char*>(&small));
  T out(0.0F);
  FoldReduce({DTypeOf<T>(), ReduceOp::kSum, nullptr, /*completes=*/false, 9},
             operands, reinterpret_cast<char*>(&out), 1);
  EXPECT_EQ(static_cast<float>(out), 1.0F + 8 * step);
  FoldReduce({DTypeOf<T>(), ReduceOp::kAverage, nullptr, /*completes=*/true, 9},
             operands, reinterpret_cast<char*>(&out), 1);
  EXPECT_EQ(static_cast<float>(out),
            static_cast<float>(T((1.0F + 8 * step) / 9.0F)));
}

TEST(FoldTest, SixteenBitsAreRoundedOnce) {
  ExpectOneRounding<Float16>();
  ExpectOneRounding<BFloat16>();
}

TEST(FoldTest, AveragesAreDividedOnce) {
  const double terms[3] = {1.0, 2.0, 4.0};
  std::vector<const char*> operands;
  for (const double& term : terms) {
    operands.push_back(reinterpret_cast<const char*>(&term));
  }
  double out = 0;
  FoldReduce({DType::kF64, ReduceOp::kAverage, nullptr, /*completes=*/true, 3},
             operands, reinterpret_cast<char*>(&out), 1);
  EXPECT_EQ(out, 7.0 / 3.0);
  FoldReduce({DType::kF64, ReduceOp::kAverage, nullptr, /*completes=*/false, 3},
             operands, reinterpret_cast<char*>(&out), 1);
  EXPECT_EQ(out, 7.0);
}

TEST(FoldTest, TheUsersFunctionIsCalledInOrder) {
  // Not commutative.
  const UserReduction twice_first = [](const void* first, const void* second,
                                       void* out, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      static_cast<std::int64_t*>(out)[i] =
          2 * static_cast<const std::int64_t*>(first)[i] +
          static_cast<const std::int64_t*>(second)[i];
    }
  };
  const std::int64_t terms[3] = {1, 10, 100};
  std::vector<const char*> operands;
  for (const std::int64_t& term : terms) {
    operands.push_back(reinterpret_cast<const char*>(&term));
  }
  std::int64_t out = 0;
  FoldReduce(
      {DType::kI64, ReduceOp::kUser, &twice_first, /*completes=*/true, 3},
      operands, reinterpret_cast<char*>(&out), 1);
  EXPECT_EQ(out, 2 * (2 * 1 + 10) + 100);
}

}  // namespace
}  // namespace shoal::internal
