// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/encoding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/half_conversion.h"

namespace shoal::internal {
namespace {

constexpr std::int64_t kBlock = 32;

struct Q8_0Block {
  Float16 scale;
  std::int8_t values[kBlock];
};
static_assert(sizeof(Q8_0Block) == 34);

constexpr std::uint16_t kNanBits = 0x7e00;
constexpr std::uint16_t kInfinityBits = 0x7c00;

// To the nearest integer, halves away from zero. |value| is small.
std::int8_t Round(float value) {
  const auto whole = static_cast<std::int32_t>(value);
  const float rest = value - static_cast<float>(whole);
  return static_cast<std::int8_t>(whole + static_cast<int>(rest >= 0.5f) -
                                  static_cast<int>(rest <= -0.5f));
}

Q8_0Block Quantize(const float (&x)[kBlock]) {
  float largest = 0;
  bool has_nan = false;
  for (const float value : x) {
    largest = std::max(largest, std::abs(value));
    has_nan |= value != value;
  }
  const float scale = largest / 127.0f;
  Q8_0Block block = {};
  block.scale = Float16(scale);
  if (has_nan || block.scale.bits == kInfinityBits) {
    block.scale = Float16::FromBits(kNanBits);
  } else if (block.scale.bits != 0) {
    const float inverse = 1.0f / scale;
    for (std::int64_t i = 0; i < kBlock; ++i) {
      block.values[i] = Round(x[i] * inverse);
    }
  }
  return block;
}

void EncodeQ8_0(const char* elements, std::int64_t count, char* bytes) {
  for (std::int64_t i = 0; i < count; i += kBlock) {
    const std::size_t size =
        static_cast<std::size_t>(std::min(kBlock, count - i)) * sizeof(float);
    float x[kBlock] = {};
    std::memcpy(x, elements, size);
    const Q8_0Block block = Quantize(x);
    std::memcpy(bytes, &block, sizeof(block));
    elements += size;
    bytes += sizeof(block);
  }
}

void DecodeQ8_0(const char* bytes, std::int64_t count, char* elements) {
  for (std::int64_t i = 0; i < count; i += kBlock) {
    const std::int64_t n = std::min(kBlock, count - i);
    Q8_0Block block;
    std::memcpy(&block, bytes, sizeof(block));
    const float scale = static_cast<float>(block.scale);
    float x[kBlock];
    for (std::int64_t k = 0; k < kBlock; ++k) {
      x[k] = scale * static_cast<float>(block.values[k]);
    }
    std::memcpy(elements, x, static_cast<std::size_t>(n) * sizeof(float));
    bytes += sizeof(block);
    elements += static_cast<std::size_t>(n) * sizeof(float);
  }
}

}  // namespace

Encoding Encoding::Q8_0() {
  return Encoding(Kind::kQ8_0, DType::kF32, sizeof(Q8_0Block), kBlock);
}

void Encoding::Encode(const void* elements, std::int64_t count,
                      void* bytes) const {
  if (kind_ == Kind::kHalves) {
    RoundToHalves(dtype_, elements, bytes, count);
  } else {
    EncodeQ8_0(static_cast<const char*>(elements), count,
               static_cast<char*>(bytes));
  }
}

void Encoding::Decode(const void* bytes, std::int64_t count,
                      void* elements) const {
  if (kind_ == Kind::kHalves) {
    WidenHalves(dtype_, bytes, elements, count);
  } else {
    DecodeQ8_0(static_cast<const char*>(bytes), count,
               static_cast<char*>(elements));
  }
}

void Encoding::RoundTrip(void* elements, std::int64_t count) const {
  if (IsAsTheyAre()) return;
  constexpr std::int64_t kAtOnce = 1024;  // a multiple of every unit
  char bytes[kAtOnce * 2];
  auto* at = static_cast<char*>(elements);
  while (count > 0) {
    const std::int64_t n = std::min(count, kAtOnce);
    Encode(at, n, bytes);
    Decode(bytes, n, at);
    at += static_cast<std::size_t>(n) * sizeof(float);
    count -= n;
  }
}

}  // namespace shoal::internal
