// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/simulated_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/float16.h"
#include "shoal/comm/reduce.h"

namespace shoal::internal {
namespace {

// Odd, so that no buffer is aligned.
constexpr std::size_t kGuardBytes = 5;
constexpr char kGuard = static_cast<char>(0xA5);

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendElement(DType dtype, int value, std::string* bytes) {
  switch (dtype) {
    case DType::kF32:
      return Append(static_cast<float>(value), bytes);
    case DType::kF64:
      return Append(static_cast<double>(value), bytes);
    case DType::kF16:
      return Append(Float16(static_cast<float>(value)), bytes);
    case DType::kBF16:
      return Append(BFloat16(static_cast<float>(value)), bytes);
    case DType::kI8:
      return Append(static_cast<std::int8_t>(value), bytes);
    case DType::kU8:
      return Append(static_cast<std::uint8_t>(value), bytes);
    case DType::kI32:
      return Append(static_cast<std::int32_t>(value), bytes);
    case DType::kI64:
      return Append(static_cast<std::int64_t>(value), bytes);
  }
}

// Between -2 and 2: sums and products over eight ranks are exact in every type.
int ValueAt(int rank, int index, std::size_t element) {
  const std::uint64_t mixed = (static_cast<std::uint64_t>(rank) * 7919 +
                               index * 104729 + element * 31 + 1) *
                              0x9E3779B97F4A7C15;
  return static_cast<int>((mixed >> 33) % 5) - 2;
}

std::string InputOf(const CallSignature& signature, std::size_t bytes, int rank,
                    int index) {
  std::string input;
  const std::size_t elements = bytes / DTypeSize(signature.dtype);
  for (std::size_t i = 0; i < elements; ++i) {
    AppendElement(signature.dtype, ValueAt(rank, index, i), &input);
  }
  return input;
}

std::string Reduced(const CallSignature& signature, std::size_t bytes,
                    int world_size, int index) {
  const std::int64_t elements = bytes / DTypeSize(signature.dtype);
  std::string sum = InputOf(signature, bytes, 0, index);
  for (int rank = 1; rank < world_size; ++rank) {
    const std::string operand = InputOf(signature, bytes, rank, index);
    Reduce(signature.dtype, signature.op, sum.data(), operand.data(),
           sum.data(), elements);
  }
  FinishReduce(signature.dtype, signature.op, sum.data(), elements, world_size);
  return sum;
}

}  // namespace

CallMemory LayOut(const SimulatedCall& call, int rank, int world_size) {
  const CallSignature& signature = call.signature;
  const std::size_t bytes = signature.count * DTypeSize(signature.dtype);
  CallMemory memory;
  memory.input_bytes = memory.output_bytes = bytes;
  bool in_place = call.in_place;
  const bool is_root = rank == signature.root;
  std::size_t input_in_output = 0;
  std::size_t output_in_input = 0;
  switch (signature.kind) {
    case CallKind::kReduce:
      in_place = in_place && is_root;
      if (!is_root) memory.output_bytes = 0;
      break;
    case CallKind::kGather:
      in_place = in_place && is_root;
      memory.output_bytes = is_root ? bytes * world_size : 0;
      input_in_output = bytes * rank;
      break;
    case CallKind::kScatter:
      in_place = in_place && is_root;
      memory.input_bytes = is_root ? bytes * world_size : 0;
      output_in_input = bytes * rank;
      break;
    case CallKind::kAllToAll:
      memory.input_bytes = memory.output_bytes = bytes * world_size;
      break;
    case CallKind::kReduceScatter:
      memory.input_bytes = bytes * world_size;
      output_in_input = bytes * rank;
      break;
    case CallKind::kAllGather:
      memory.output_bytes = bytes * world_size;
      input_in_output = bytes * rank;
      break;
    case CallKind::kBarrier:
      memory.input_bytes = memory.output_bytes = 0;
      break;
    case CallKind::kBroadcast:
      in_place = true;
      break;
    default:
      break;
  }
  memory.input_at = kGuardBytes + input_in_output;
  if (in_place) {
    memory.output_at = kGuardBytes + output_in_input;
    memory.size =
        2 * kGuardBytes + std::max(memory.input_bytes, memory.output_bytes);
  } else {
    memory.input_at = kGuardBytes;
    memory.output_at = 2 * kGuardBytes + memory.input_bytes;
    memory.size = 3 * kGuardBytes + memory.input_bytes + memory.output_bytes;
  }
  return memory;
}

std::string MemoryBefore(const SimulatedCall& call, int rank, int world_size,
                         int index) {
  const CallMemory memory = LayOut(call, rank, world_size);
  std::string bytes(memory.size, kGuard);
  const std::string input =
      InputOf(call.signature, memory.input_bytes, rank, index);
  bytes.replace(memory.input_at, input.size(), input);
  return bytes;
}

std::string MemoryAfter(const SimulatedCall& call, int rank, int world_size,
                        int index) {
  const CallSignature& signature = call.signature;
  const CallMemory memory = LayOut(call, rank, world_size);
  std::string output;
  switch (signature.kind) {
    case CallKind::kAllReduce:
      output = Reduced(signature, memory.output_bytes, world_size, index);
      break;
    case CallKind::kReduceScatter:
      output = Reduced(signature, memory.input_bytes, world_size, index)
                   .substr(rank * memory.output_bytes, memory.output_bytes);
      break;
    case CallKind::kAllGather:
      for (int r = 0; r < world_size; ++r) {
        output += InputOf(signature, memory.input_bytes, r, index);
      }
      break;
    case CallKind::kBroadcast:
      output = InputOf(signature, memory.output_bytes, signature.root, index);
      break;
    case CallKind::kReduce:
      if (rank != signature.root) break;
      output = Reduced(signature, memory.output_bytes, world_size, index);
      break;
    case CallKind::kGather:
      if (rank != signature.root) break;
      for (int r = 0; r < world_size; ++r) {
        output += InputOf(signature, memory.input_bytes, r, index);
      }
      break;
    case CallKind::kScatter:
      output = InputOf(signature, memory.output_bytes * world_size,
                       signature.root, index)
                   .substr(rank * memory.output_bytes, memory.output_bytes);
      break;
    case CallKind::kAllToAll:
      for (int r = 0; r < world_size; ++r) {
        const std::size_t part = memory.input_bytes / world_size;
        output += InputOf(signature, memory.input_bytes, r, index)
                      .substr(rank * part, part);
      }
      break;
    default:
      break;
  }
  std::string bytes = MemoryBefore(call, rank, world_size, index);
  bytes.replace(memory.output_at, output.size(), output);
  return bytes;
}

bool SameMemory(const SimulatedCall& call, int rank, int world_size,
                const std::string& actual, const std::string& expected) {
  if (actual.size() != expected.size()) return false;
  if (!call.in_place || call.signature.kind != CallKind::kReduceScatter) {
    return actual == expected;
  }
  const CallMemory memory = LayOut(call, rank, world_size);
  std::string masked = actual;
  masked.replace(memory.input_at, memory.input_bytes, expected, memory.input_at,
                 memory.input_bytes);
  masked.replace(memory.output_at, memory.output_bytes, actual,
                 memory.output_at, memory.output_bytes);
  return masked == expected;
}

}  // namespace shoal::internal
