// SPDX-License-Identifier: Apache-2.0
//
// A program of a repository that vendors Shoal. Its last line is "vendoring:
// OK".

#include <cstdio>
#include <type_traits>

#include "comm/communicator.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"

namespace {

// Both headers were found, and each gave its own class.
static_assert(!std::is_same_v<Communicator, shoal::Communicator>);

// The mark of third_party/abseil.bzl can come through Shoal's targets only.
#if defined(ABSEIL_OF_THE_OUTER_REPOSITORY)
constexpr char kAbseil[] = "the outer repository's";
#else
constexpr char kAbseil[] = "another";
#endif

}  // namespace

int main() {
  std::printf("own communicator: %s\n", Communicator::WhatItIs());
  std::printf("abseil: %s\n", kAbseil);
  std::printf("bytes of an f32: %d\n",
              static_cast<int>(shoal::DTypeSize(shoal::DType::kF32)));
  std::printf("vendoring: OK\n");
  return 0;
}
