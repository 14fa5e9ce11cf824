// SPDX-License-Identifier: Apache-2.0
//
// The form in which the elements of a reduction travel between ranks.
//
// The numeric values travel in message headers and never change.
// Values; thread-safe.

#ifndef SHOAL_COMM_WIRE_FORMAT_H_
#define SHOAL_COMM_WIRE_FORMAT_H_

#include <cstdint>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/dtype.h"

namespace shoal {

enum class WireFormat : std::uint8_t {
  // In the type of the buffers.
  kAsData = 0,
  // Of f16 and bf16: in f32, in which everything is computed too. The result is
  // rounded to the type once, at the very end.
  kF32 = 1,
  // Of f32, for slow links: half as many bytes.
  kBF16 = 2,
  // Of f32, for slow links: a quarter as many bytes (34 for 128). Blocks of 32
  // elements with one scale (f16, the largest magnitude / 127) and an i8 each,
  // as in llama.cpp. A block with a magnitude above 8.3e6, an infinity or a NaN
  // arrives as NaNs.
  kQ8_0 = 3,
};

inline constexpr WireFormat kAllWireFormats[] = {
    WireFormat::kAsData, WireFormat::kF32, WireFormat::kBF16,
    WireFormat::kQ8_0};

// True for the values named above; what arrives from a peer is checked by it.
bool IsValidWireFormat(WireFormat wire);

// Whether elements of this type may travel so. Both must be valid.
bool WireFormatTakes(WireFormat wire, DType dtype);

// Whether what arrives may differ from what was sent.
bool IsLossy(WireFormat wire);

// "data", "f32", "bf16", "q8_0"; "wire(9)" for a value that is none.
absl::string_view WireFormatName(WireFormat wire);

// The inverse of `WireFormatName`. `INVALID_ARGUMENT` names text and choice.
absl::StatusOr<WireFormat> ParseWireFormat(absl::string_view name);

std::ostream& operator<<(std::ostream& out, WireFormat wire);

}  // namespace shoal

#endif  // SHOAL_COMM_WIRE_FORMAT_H_
