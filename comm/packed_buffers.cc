// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/packed_buffers.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/dtype.h"

namespace shoal::internal {
namespace {

// The counts have been checked, so that the sizes do not overflow.
std::size_t Bytes(const Buffer& buffer) {
  return static_cast<std::size_t>(buffer.count) * DTypeSize(buffer.dtype);
}

}  // namespace

absl::StatusOr<PackedBuffers> PackedBuffers::Pack(
    absl::Span<const Buffer> buffers) {
  PackedBuffers packed(buffers);
  std::size_t all = 0;
  for (const Buffer& buffer : buffers) all += Bytes(buffer);
  packed.memory_.reset(new (std::nothrow) char[all]);
  if (packed.memory_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("AllReduceCoalesced: no memory for a copy of ", all,
                     " bytes; reduce fewer buffers at a time"));
  }
  char* copy = packed.data();
  for (const Buffer& buffer : buffers) {
    if (buffer.count > 0) std::memcpy(copy, buffer.data, Bytes(buffer));
    copy += Bytes(buffer);
  }
  return packed;
}

void PackedBuffers::Unpack() {
  const char* copy = data();
  for (const Buffer& buffer : buffers_) {
    if (buffer.count > 0) std::memcpy(buffer.data, copy, Bytes(buffer));
    copy += Bytes(buffer);
  }
}

absl::Status UnpackingOperation::Wait() {
  const absl::Status status = operation_.Wait();
  MutexLock lock(&mutex_);
  if (status.ok() && !unpacked_) packed_.Unpack();
  unpacked_ = true;
  return status;
}

bool UnpackingOperation::Test() {
  if (!operation_.Test()) return false;
  Wait().IgnoreError();
  return true;
}

}  // namespace shoal::internal
