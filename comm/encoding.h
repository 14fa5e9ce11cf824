// SPDX-License-Identifier: Apache-2.0
//
// How the elements of a collective become the bytes of its messages.
//
// An operation computes in the type of its memory; what travels may have
// another form. Elements are encoded in units: one element, or a block of 32
// that share a scale. A message begins with a new unit; its last block may have
// fewer elements, and is as long as the others.
//
// What a rank keeps must be what it has sent, so that all ranks end with the
// same bits. Hence encoding is idempotent: encoding what was decoded gives the
// same bytes, if the blocks begin at the same elements.
//
// Values; thread-safe as far as the memory is.

#ifndef SHOAL_COMM_ENCODING_H_
#define SHOAL_COMM_ENCODING_H_

#include <cstddef>
#include <cstdint>

#include "shoal/base/dialect.h"
#include "shoal/comm/dtype.h"

namespace shoal::internal {

class Encoding {
 public:
  // Elements of `memory` as they are.
  static Encoding AsTheyAre(DType memory) {
    return Encoding(Kind::kAsTheyAre, memory, DTypeSize(memory));
  }
  // f32 in memory, f16 or bf16 in messages, rounded to nearest even.
  static Encoding RoundedTo(DType half) {
    return Encoding(Kind::kHalves, half, 2);
  }
  // f32 in memory, Q8_0 in messages: a block is a scale d in f16, and an i8
  // each: round(x * (127 / m)), halves away from zero, with m the largest
  // magnitude and d = m / 127. As `quantize_row_q8_0_ref` of llama.cpp, but for
  // what d cannot hold: then the block's elements are NaNs.
  static Encoding Q8_0();

  // Whether memory and message hold the same bytes.
  bool IsAsTheyAre() const { return kind_ == Kind::kAsTheyAre; }

  // Elements of a whole unit, and the bytes of a unit.
  std::int64_t unit_elements() const { return unit_elements_; }
  std::size_t unit_bytes() const { return unit_bytes_; }

  // Of the elements from the beginning of a unit on.
  std::size_t Bytes(std::int64_t count) const {
    return static_cast<std::size_t>((count + unit_elements_ - 1) /
                                    unit_elements_) *
           unit_bytes_;
  }

  // From the beginning of a unit on. Not for what is as it is. Any alignment;
  // memory and message do not overlap.
  void Encode(const void* elements, std::int64_t count, void* bytes) const;
  void Decode(const void* bytes, std::int64_t count, void* elements) const;

  // The elements become what a receiver would have of them.
  void RoundTrip(void* elements, std::int64_t count) const;

 private:
  enum class Kind : std::uint8_t { kAsTheyAre, kHalves, kQ8_0 };

  Encoding(Kind kind, DType dtype, std::size_t unit_bytes,
           std::int64_t unit_elements = 1)
      : kind_(kind),
        dtype_(dtype),
        unit_bytes_(unit_bytes),
        unit_elements_(unit_elements) {}

  Kind kind_;
  DType dtype_;
  std::size_t unit_bytes_;
  std::int64_t unit_elements_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_ENCODING_H_
