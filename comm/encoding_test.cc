// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/encoding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"

namespace shoal::internal {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<char> Encoded(const Encoding& encoding,
                          const std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<char> bytes(encoding.Bytes(count) + 1, 'x');
  // At an odd address.
  std::vector<char> elements(values.size() * sizeof(float) + 1);
  if (count > 0) {
    std::memcpy(elements.data() + 1, values.data(), elements.size() - 1);
  }
  encoding.Encode(elements.data() + 1, count, bytes.data());
  EXPECT_EQ(bytes.back(), 'x');
  bytes.pop_back();
  return bytes;
}

std::vector<float> Decoded(const Encoding& encoding,
                           const std::vector<char>& bytes, std::size_t count) {
  std::vector<float> values(count + 1, -77.0f);
  encoding.Decode(bytes.data(), static_cast<std::int64_t>(count),
                  values.data());
  EXPECT_EQ(values.back(), -77.0f);
  values.pop_back();
  return values;
}

std::uint32_t BitsOf(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

std::vector<float> RandomValues(std::size_t count, std::mt19937* random) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    const int exponent = static_cast<int>((*random)() % 40) - 30;
    values.push_back(std::ldexp(
        static_cast<float>((*random)()) / 2147483648.0f - 1.0f, exponent));
  }
  return values;
}

// With the kernels of each instruction set of this machine.
template <typename Body>
void OnEveryTarget(const Body& body) {
  std::int64_t left =
      (hwy::SupportedTargets() | HWY_STATIC_TARGET) & HWY_TARGETS;
  ASSERT_NE(left, 0);
  for (; left != 0; left &= left - 1) {
    SCOPED_TRACE(hwy::TargetName(left & -left));
    hwy::SetSupportedTargetsForTest(left & -left);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

template <typename Float>
void ExpectRounds(const std::vector<float>& values) {
  const Encoding encoding = Encoding::RoundedTo(DTypeOf<Float>());
  const std::vector<char> bytes = Encoded(encoding, values);
  ASSERT_EQ(bytes.size(), 2 * values.size());
  const std::vector<float> decoded = Decoded(encoding, bytes, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    Float half;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    ASSERT_EQ(half.bits, Float(values[i]).bits)
        << std::hex << BitsOf(values[i]) << " at " << i;
    ASSERT_EQ(BitsOf(decoded[i]), BitsOf(static_cast<float>(half)));
  }
}

TEST(EncodingTest, RoundsAsTheTypesDo) {
  OnEveryTarget([] {
    for (std::size_t count = 0; count < 70; ++count) {
      std::mt19937 random(static_cast<unsigned>(count));
      ExpectRounds<Float16>(RandomValues(count, &random));
      ExpectRounds<BFloat16>(RandomValues(count, &random));
    }
    // Any bits at all, NaNs among them.
    std::mt19937 random(7);
    std::vector<float> any(200'000);
    for (float& value : any) {
      const std::uint32_t bits = random();
      std::memcpy(&value, &bits, sizeof(bits));
    }
    ExpectRounds<Float16>(any);
    ExpectRounds<BFloat16>(any);
  });
}

TEST(EncodingTest, EveryHalfIsWidened) {
  OnEveryTarget([] {
    std::vector<char> bytes(2 * 65536);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
    const auto f16 = Decoded(Encoding::RoundedTo(DType::kF16), bytes, 65536);
    const auto bf16 = Decoded(Encoding::RoundedTo(DType::kBF16), bytes, 65536);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      ASSERT_EQ(BitsOf(f16[i]),
                BitsOf(static_cast<float>(Float16::FromBits(bits))));
      ASSERT_EQ(BitsOf(bf16[i]),
                BitsOf(static_cast<float>(BFloat16::FromBits(bits))));
    }
  });
}

TEST(Q8_0Test, BlocksOfThirtyTwo) {
  const Encoding encoding = Encoding::Q8_0();
  EXPECT_EQ(encoding.unit_elements(), 32);
  EXPECT_EQ(encoding.Bytes(0), 0u);
  EXPECT_EQ(encoding.Bytes(1), 34u);
  EXPECT_EQ(encoding.Bytes(32), 34u);
  EXPECT_EQ(encoding.Bytes(33), 68u);
}

// A block by hand: the scale is 254 / 127 = 2.
TEST(Q8_0Test, HalvesAreRoundedAwayFromZero) {
  std::vector<float> values(32, 0.0f);
  values[0] = -254.0f;
  values[1] = 5.0f;   // 2.5
  values[2] = -5.0f;  // -2.5
  values[3] = 0.99f;  // 0.495
  values[31] = 3.0f;  // 1.5
  const std::vector<char> bytes = Encoded(Encoding::Q8_0(), values);
  ASSERT_EQ(bytes.size(), 34u);
  Float16 scale;
  std::memcpy(&scale, bytes.data(), 2);
  EXPECT_EQ(scale.bits, Float16(2.0f).bits);
  EXPECT_EQ(bytes[2], -127);
  EXPECT_EQ(bytes[3], 3);
  EXPECT_EQ(bytes[4], -3);
  EXPECT_EQ(bytes[5], 0);
  EXPECT_EQ(bytes[33], 2);
}

TEST(Q8_0Test, ErrorIsBelowOneStep) {
  std::mt19937 random(11);
  for (const std::size_t count : {1, 31, 32, 33, 1000}) {
    const std::vector<float> values = RandomValues(count, &random);
    const std::vector<float> decoded =
        Decoded(Encoding::Q8_0(), Encoded(Encoding::Q8_0(), values), count);
    for (std::size_t begin = 0; begin < count; begin += 32) {
      const std::size_t end = std::min(begin + 32, count);
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) {
        largest = std::max(largest, std::abs(values[i]));
      }
      // Half a step, the rounding of the scale, and what f16 cannot hold.
      const float bound = largest / 127 * 0.57f + 127 * 0x1p-25f;
      for (std::size_t i = begin; i < end; ++i) {
        ASSERT_LE(std::abs(values[i] - decoded[i]), bound) << i;
      }
    }
  }
}

TEST(Q8_0Test, WhatTheScaleCannotHoldArrivesAsNaNs) {
  for (const float odd : {kNan, -kNan, kInfinity, -kInfinity, 8.4e6f}) {
    std::vector<float> values(64, 1.0f);
    values[40] = odd;
    const std::vector<float> decoded =
        Decoded(Encoding::Q8_0(), Encoded(Encoding::Q8_0(), values), 64);
    EXPECT_NEAR(decoded[0], 1.0f, 0.01f);
    for (int i = 32; i < 64; ++i) EXPECT_TRUE(std::isnan(decoded[i])) << odd;
  }
  std::vector<float> large(32, 8.3e6f);
  large = Decoded(Encoding::Q8_0(), Encoded(Encoding::Q8_0(), large), 32);
  EXPECT_NEAR(large[0], 8.3e6f, 8.3e6f / 1000);
  // And what is too small for it becomes zero.
  std::vector<float> small(32, 1e-40f);
  small = Decoded(Encoding::Q8_0(), Encoded(Encoding::Q8_0(), small), 32);
  EXPECT_EQ(small[0], 0.0f);
}

TEST(EncodingTest, WhatWasDecodedIsEncodedToTheSameBytes) {
  std::mt19937 random(13);
  for (const Encoding& encoding :
       {Encoding::RoundedTo(DType::kBF16), Encoding::RoundedTo(DType::kF16),
        Encoding::Q8_0()}) {
    for (int repetition = 0; repetition < 300; ++repetition) {
      const std::size_t count = random() % 2500;
      std::vector<float> values = RandomValues(count, &random);
      const std::vector<char> bytes = Encoded(encoding, values);
      const std::vector<float> decoded = Decoded(encoding, bytes, count);
      ASSERT_EQ(Encoded(encoding, decoded), bytes);
      encoding.RoundTrip(values.data(), static_cast<std::int64_t>(count));
      ASSERT_EQ(values, decoded);
    }
  }
}

}  // namespace
}  // namespace shoal::internal
