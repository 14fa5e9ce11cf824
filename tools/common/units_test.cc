// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/common/units.h"

#include "gtest/gtest.h"

namespace shoal::tools {
namespace {

TEST(FormatBytesTest, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(4), "4 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(256 * 1024), "256 KiB");
  EXPECT_EQ(FormatBytes(16 << 20), "16 MiB");
  EXPECT_EQ(FormatBytes((16 << 20) + (1 << 19)), "16.5 MiB");
  EXPECT_EQ(FormatBytes(std::int64_t{3} << 30), "3 GiB");
}

TEST(FormatSecondsTest, HasThreeDigits) {
  EXPECT_EQ(FormatSeconds(0), "0.00 us");
  EXPECT_EQ(FormatSeconds(8.25e-6), "8.25 us");
  EXPECT_EQ(FormatSeconds(9.999e-6), "10.0 us");
  EXPECT_EQ(FormatSeconds(99.96e-6), "100 us");
  EXPECT_EQ(FormatSeconds(999.4e-6), "999 us");
  EXPECT_EQ(FormatSeconds(999.6e-6), "1.00 ms");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(0.9996), "1.00 s");
  EXPECT_EQ(FormatSeconds(61), "61.0 s");
}

TEST(FormatBandwidthTest, HasThreeDigits) {
  EXPECT_EQ(FormatBandwidth(650e3), "650 kB/s");
  EXPECT_EQ(FormatBandwidth(1.5e6), "1.50 MB/s");
  EXPECT_EQ(FormatBandwidth(12.34e9), "12.3 GB/s");
}

TEST(AllReduceBusBandwidthTest, CountsWhatALinkCarries) {
  EXPECT_DOUBLE_EQ(AllReduceBusBandwidth(1000, 1, 2), 1000);
  EXPECT_DOUBLE_EQ(AllReduceBusBandwidth(1000, 1, 4), 1500);
  EXPECT_DOUBLE_EQ(AllReduceBusBandwidth(1000, 0.5, 4), 3000);
  EXPECT_DOUBLE_EQ(AllReduceBusBandwidth(1000, 1, 1), 0);
  EXPECT_DOUBLE_EQ(AllReduceBusBandwidth(1000, 0, 4), 0);
}

}  // namespace
}  // namespace shoal::tools
