// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/frame.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Feeds `bytes`, at most `piece` of them at once, and returns the payloads, or
// the first error.
absl::StatusOr<std::vector<std::string>> ReadAll(FrameReader* reader,
                                                 absl::string_view bytes,
                                                 std::size_t piece) {
  std::vector<std::string> payloads;
  while (!bytes.empty()) {
    const absl::Span<char> wanted = reader->Wanted();
    EXPECT_FALSE(wanted.empty());
    const std::size_t count = std::min({wanted.size(), bytes.size(), piece});
    std::copy_n(bytes.begin(), count, wanted.begin());
    bytes.remove_prefix(count);
    const absl::StatusOr<bool> complete = reader->Filled(count);
    if (!complete.ok()) return complete.status();
    if (*complete) payloads.push_back(reader->TakePayload());
  }
  return payloads;
}

TEST(FrameTest, BytesAreThoseOfTheTable) {
  EXPECT_EQ(EncodeFrame("ab"),
            std::string("SHOL\x01\x00\x00\x00\x02\x00\x00\x00"
                        "ab",
                        14));
}

TEST(FrameTest, ReadsFramesCutAnywhere) {
  const std::string long_payload(1000, 'x');
  const std::string bytes = EncodeFrame("one") + EncodeFrame("") +
                            EncodeFrame(long_payload) + EncodeFrame("four");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    FrameReader reader(1000);
    SHOAL_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> payloads,
                               ReadAll(&reader, bytes, piece));
    EXPECT_THAT(payloads, ElementsAre("one", "", long_payload, "four"));
    EXPECT_FALSE(reader.in_frame());
  }
}

TEST(FrameTest, NeverWantsBytesBehindTheFrame) {
  const std::string frame = EncodeFrame("hello");
  FrameReader reader(100);
  std::size_t taken = 0;
  bool complete = false;
  while (!complete) {
    const absl::Span<char> wanted = reader.Wanted();
    ASSERT_LE(taken + wanted.size(), frame.size());
    std::copy_n(frame.begin() + taken, wanted.size(), wanted.begin());
    taken += wanted.size();
    SHOAL_ASSERT_OK_AND_ASSIGN(complete, reader.Filled(wanted.size()));
  }
  EXPECT_EQ(taken, frame.size());
}

TEST(FrameTest, RefusesStrangersAtTheirFirstWrongByte) {
  for (const char* bytes :
       {"GET / HTTP/1.1\r\n", "\x16\x03\x01", "X", "SX", "SHOX", "\n"}) {
    FrameReader reader(100);
    EXPECT_THAT(
        ReadAll(&reader, bytes, 100),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr("its first bytes")))
        << bytes;
  }
}

TEST(FrameTest, RefusesBadHeaders) {
  std::string frame = EncodeFrame("x");
  frame[4] = 2;
  FrameReader other_version(100);
  EXPECT_THAT(
      ReadAll(&other_version, frame, 100),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("version 2")));
  frame = EncodeFrame("x");
  frame[7] = 1;
  FrameReader reserved(100);
  EXPECT_THAT(ReadAll(&reserved, frame, 100),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("reserved")));
}

TEST(FrameTest, RefusesLongPayloadsBeforeTheyCome) {
  FrameReader exact(5);
  EXPECT_THAT(ReadAll(&exact, EncodeFrame("12345"), 100), IsOk());
  FrameReader reader(5);
  EXPECT_THAT(
      ReadAll(&reader, EncodeFrame("123456").substr(0, kFrameHeaderSize), 100),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("6 bytes")));
  // The largest length that the field can hold.
  FrameReader huge(kMaxTrustedPayload);
  EXPECT_THAT(
      ReadAll(&huge,
              absl::string_view("SHOL\x01\x00\x00\x00\xff\xff\xff\xff", 12),
              100),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("4294967295 bytes")));
}

}  // namespace
}  // namespace shoal::internal
