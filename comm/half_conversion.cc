// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/half_conversion.h"

#include <cstddef>
#include <cstdint>

#include "shoal/comm/dtype.h"

// The kernels for all of this architecture's instruction sets.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shoal/comm/half_conversion_kernels.inc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "shoal/comm/half_conversion_kernels.inc"

namespace shoal::internal {
namespace {

HWY_EXPORT(WidenFloat16);
HWY_EXPORT(WidenBFloat16);
HWY_EXPORT(RoundToFloat16);
HWY_EXPORT(RoundToBFloat16);

}  // namespace

void WidenHalves(DType dtype, const void* halves, void* floats,
                 std::int64_t count) {
  const auto* const from = static_cast<const std::uint8_t*>(halves);
  auto* const to = static_cast<std::uint8_t*>(floats);
  const auto n = static_cast<std::size_t>(count);
  if (dtype == DType::kF16) {
    HWY_DYNAMIC_DISPATCH(WidenFloat16)(from, to, n);
  } else {
    HWY_DYNAMIC_DISPATCH(WidenBFloat16)(from, to, n);
  }
}

void RoundToHalves(DType dtype, const void* floats, void* halves,
                   std::int64_t count) {
  const auto* const from = static_cast<const std::uint8_t*>(floats);
  auto* const to = static_cast<std::uint8_t*>(halves);
  const auto n = static_cast<std::size_t>(count);
  if (dtype == DType::kF16) {
    HWY_DYNAMIC_DISPATCH(RoundToFloat16)(from, to, n);
  } else {
    HWY_DYNAMIC_DISPATCH(RoundToBFloat16)(from, to, n);
  }
}

}  // namespace shoal::internal
