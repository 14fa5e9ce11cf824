// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal::internal {
namespace {

constexpr char kMagic[4] = {'S', 'H', 'O', 'L'};

void AppendLittleEndian(std::uint32_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) {
    out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

std::uint32_t ReadLittleEndian(const char* data, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(data[i])} << (8 * i);
  }
  return value;
}

}  // namespace

std::string EncodeFrame(absl::string_view payload) {
  std::string frame(kMagic, sizeof kMagic);
  AppendLittleEndian(kProtocolVersion, 2, &frame);
  AppendLittleEndian(0, 2, &frame);
  AppendLittleEndian(static_cast<std::uint32_t>(payload.size()), 4, &frame);
  absl::StrAppend(&frame, payload);
  return frame;
}

absl::Span<char> FrameReader::Wanted() {
  if (header_bytes_ < kFrameHeaderSize) {
    return absl::MakeSpan(header_).subspan(header_bytes_);
  }
  return absl::MakeSpan(payload_).subspan(payload_bytes_);
}

absl::StatusOr<bool> FrameReader::Filled(std::size_t bytes) {
  if (header_bytes_ == kFrameHeaderSize) {
    payload_bytes_ += bytes;
    return payload_bytes_ == payload_.size();
  }
  header_bytes_ += bytes;
  // Nothing is gained by waiting for the rest of a header that begins wrong.
  const std::size_t magic_bytes = std::min(header_bytes_, sizeof kMagic);
  if (std::memcmp(header_, kMagic, magic_bytes) != 0) {
    return absl::DataLossError(absl::StrCat(
        "its first bytes are not those of Shoal but \"",
        absl::CEscape(absl::string_view(header_, header_bytes_)), "\""));
  }
  if (header_bytes_ < kFrameHeaderSize) return false;
  const std::uint32_t version = ReadLittleEndian(header_ + 4, 2);
  const std::uint32_t reserved = ReadLittleEndian(header_ + 6, 2);
  const std::uint32_t length = ReadLittleEndian(header_ + 8, 4);
  if (version != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it speaks version ", version,
                     " of Shoal's protocol, and this rank version ",
                     kProtocolVersion, "; run the same release everywhere"));
  }
  if (reserved != 0) {
    return absl::DataLossError("the reserved bytes of its frame are not 0");
  }
  if (length > max_payload_) {
    return absl::DataLossError(absl::StrCat("it announces a message of ",
                                            length, " bytes, more than the ",
                                            max_payload_, " allowed"));
  }
  payload_.resize(length);
  return length == 0;
}

std::string FrameReader::TakePayload() {
  header_bytes_ = 0;
  payload_bytes_ = 0;
  return std::exchange(payload_, std::string());
}

}  // namespace shoal::internal
