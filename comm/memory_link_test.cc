// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/memory_link.h"

#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/link.h"

namespace shoal::internal {
namespace {

using ::testing::IsEmpty;

LinkResult Write(Link& link, const std::vector<std::string>& pieces) {
  std::vector<struct iovec> list;
  for (const std::string& piece : pieces) {
    list.push_back({const_cast<char*>(piece.data()), piece.size()});
  }
  return link.TryWrite(list);
}

// Reads at most so many bytes, scattered over two pieces.
LinkResult Read(Link& link, std::size_t first, std::size_t second,
                std::string* text) {
  std::string a(first, '?');
  std::string b(second, '?');
  const struct iovec list[] = {{a.data(), first}, {b.data(), second}};
  const LinkResult result = link.TryRead(list);
  *text = (a + b).substr(0, result.bytes);
  return result;
}

std::string ReadText(Link& link, std::size_t size) {
  std::string text;
  Read(link, size, 0, &text);
  return text;
}

TEST(MemoryLinkTest, CarriesBytesInOrderBothWays) {
  auto [a, b] = MakeMemoryLinkPair();
  EXPECT_EQ(Write(*a, {"one ", "", "two "}).bytes, 8u);
  EXPECT_EQ(Write(*a, {"three"}).bytes, 5u);
  EXPECT_EQ(Write(*b, {"back"}).bytes, 4u);
  std::string text;
  EXPECT_EQ(Read(*b, 2, 7, &text).bytes, 9u);
  EXPECT_EQ(text, "one two t");
  EXPECT_EQ(ReadText(*b, 100), "hree");
  EXPECT_EQ(ReadText(*a, 100), "back");
  EXPECT_EQ(Read(*b, 1, 0, &text).state, LinkState::kWouldBlock);
}

TEST(MemoryLinkTest, HoldsAsMuchAsItsCapacityAndWrapsAround) {
  auto [a, b] = MakeMemoryLinkPair({.capacity_bytes = 7});
  EXPECT_EQ(Write(*a, {"abcde", "fghij"}).bytes, 7u);
  EXPECT_EQ(Write(*a, {"x"}).state, LinkState::kWouldBlock);
  EXPECT_EQ(ReadText(*b, 3), "abc");
  EXPECT_EQ(Write(*a, {"hi", "jkl"}).bytes, 3u);
  EXPECT_EQ(Write(*a, {"x"}).state, LinkState::kWouldBlock);
  EXPECT_EQ(ReadText(*b, 100), "defghij");
  EXPECT_EQ(Write(*a, {"k"}).bytes, 1u);
  EXPECT_EQ(ReadText(*b, 100), "k");
}

TEST(MemoryLinkTest, AskingForNothingIsOk) {
  auto [a, b] = MakeMemoryLinkPair({.capacity_bytes = 1});
  EXPECT_EQ(Write(*a, {}).state, LinkState::kOk);
  EXPECT_EQ(Write(*a, {""}).state, LinkState::kOk);
  std::string text;
  EXPECT_EQ(Read(*b, 0, 0, &text).state, LinkState::kOk);
}

TEST(MemoryLinkTest, AnEndLeavesItsLastBytes) {
  auto [a, b] = MakeMemoryLinkPair();
  Write(*a, {"last words"});
  a.reset();
  EXPECT_EQ(Write(*b, {"x"}).state, LinkState::kEnded);
  EXPECT_FALSE(b->end_reason().empty());
  EXPECT_EQ(ReadText(*b, 4), "last");
  EXPECT_EQ(ReadText(*b, 100), " words");
  std::string text;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Read(*b, 1, 0, &text).state, LinkState::kEnded);
    EXPECT_EQ(Write(*b, {"x"}).state, LinkState::kEnded);
  }
}

TEST(MemoryLinkTest, ShutdownEndsOneDirection) {
  auto [a, b] = MakeMemoryLinkPair();
  Write(*a, {"bye"});
  a->ShutdownWrite();
  EXPECT_EQ(Write(*a, {"x"}).state, LinkState::kEnded);
  EXPECT_EQ(ReadText(*b, 100), "bye");
  std::string text;
  EXPECT_EQ(Read(*b, 1, 0, &text).state, LinkState::kEnded);
  EXPECT_THAT(b->end_reason(), IsEmpty());
  EXPECT_EQ(Write(*b, {"and on"}).bytes, 6u);
  EXPECT_EQ(ReadText(*a, 100), "and on");
}

TEST(MemoryLinkTest, WakesThePeerForWhatItDoes) {
  auto [a, b] = MakeMemoryLinkPair({.capacity_bytes = 4});
  int woken_a = 0;
  int woken_b = 0;
  a->SetWakeup([&] { ++woken_a; });
  b->SetWakeup([&] { ++woken_b; });
  Write(*a, {"1234"});
  EXPECT_EQ(woken_b, 1) << "bytes came";
  Write(*a, {"5"});
  EXPECT_EQ(woken_b, 1) << "nothing moved";
  EXPECT_EQ(woken_a, 0);
  EXPECT_EQ(ReadText(*b, 1), "1");
  EXPECT_EQ(woken_a, 1) << "space was freed";
  a->ShutdownWrite();
  EXPECT_EQ(woken_b, 2) << "the end of the stream";
  b->SetWakeup(nullptr);
  Write(*a, {"x"});
  b->SetWakeup([&] { ++woken_b; });
  a.reset();
  EXPECT_EQ(woken_b, 3) << "the end of the peer";
  b.reset();
  EXPECT_EQ(woken_a, 1) << "a destroyed end is not called";
}

// Parks a thread until it is woken: what a driver does, without descriptors.
class Parking {
 public:
  std::function<void()> wakeup() {
    return [this] {
      MutexLock lock(&mutex_);
      woken_ = true;
      condition_.Signal();
    };
  }

  // False after a minute without a wake-up.
  bool Park() {
    const auto deadline = CondVar::Clock::now() + std::chrono::minutes(1);
    MutexLock lock(&mutex_);
    while (!woken_) {
      if (!condition_.WaitUntil(&mutex_, deadline)) return woken_;
    }
    woken_ = false;
    return true;
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

std::uint8_t ByteAt(std::uint64_t position) {
  return static_cast<std::uint8_t>(position * 131 + (position >> 8));
}

// Both directions at once in odd pieces, with each thread parked whenever
// neither direction moves: a lost wake-up is a failure, a race is tsan's.
void Exchange(Link& link, Parking& parking, std::uint64_t total,
              std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  char out[64];
  char in[64];
  while (sent < total || received < total) {
    const std::size_t write_size =
        std::min<std::uint64_t>(1 + random() % sizeof(out), total - sent);
    for (std::size_t i = 0; i < write_size; ++i) {
      out[i] = static_cast<char>(ByteAt(sent + i));
    }
    const std::size_t cut = random() % (write_size + 1);
    const struct iovec write_list[] = {{out, cut},
                                       {out + cut, write_size - cut}};
    const LinkResult written = link.TryWrite(write_list);
    sent += written.bytes;
    const struct iovec read_list = {in, 1 + random() % sizeof(in)};
    const LinkResult read =
        link.TryRead(absl::Span<const struct iovec>(&read_list, 1));
    for (std::size_t i = 0; i < read.bytes; ++i) {
      ASSERT_EQ(static_cast<std::uint8_t>(in[i]), ByteAt(received + i));
    }
    received += read.bytes;
    if (written.bytes == 0 && read.bytes == 0) {
      ASSERT_TRUE(parking.Park())
          << "sent " << sent << " received " << received;
    }
  }
}

TEST(MemoryLinkTest, TwoThreadsLoseNoByteAndNoWakeUp) {
  constexpr std::uint64_t kTotal = 1 << 18;
  for (std::size_t capacity : {1, 3, 61, 4096}) {
    // Before the links: the end of one still wakes the other's.
    Parking parking_a;
    Parking parking_b;
    auto [a, b] = MakeMemoryLinkPair({.capacity_bytes = capacity});
    a->SetWakeup(parking_a.wakeup());
    b->SetWakeup(parking_b.wakeup());
    const std::uint64_t total = capacity < 8 ? kTotal / 64 : kTotal;
    std::thread other(
        [&, link = b.get()] { Exchange(*link, parking_b, total, 2); });
    Exchange(*a, parking_a, total, 1);
    other.join();
  }
}

TEST(MemoryLinkTest, AnEndDestroyedInItsThreadWakesTheReader) {
  for (int i = 0; i < 200; ++i) {
    Parking parking;
    auto [a, b] = MakeMemoryLinkPair({.capacity_bytes = 16});
    b->SetWakeup(parking.wakeup());
    std::thread other([link = std::move(a)]() mutable {
      Write(*link, {"12345"});
      link.reset();
    });
    std::string all;
    std::string text;
    for (;;) {
      const LinkResult result = Read(*b, 2, 1, &text);
      all += text;
      if (result.state == LinkState::kEnded) break;
      if (result.state == LinkState::kWouldBlock) {
        ASSERT_TRUE(parking.Park());
      }
    }
    other.join();
    EXPECT_EQ(all, "12345");
  }
}

// While one end calls the other's wake-up, that is destroyed.
TEST(MemoryLinkTest, WakeUpsStopWhenAnEndIsDestroyed) {
  for (int i = 0; i < 200; ++i) {
    auto [a, b] = MakeMemoryLinkPair({.capacity_bytes = 1 << 16});
    auto calls = std::make_unique<int>(0);
    b->SetWakeup([count = calls.get()] { ++*count; });
    std::thread other([link = a.get()] {
      for (int k = 0; k < 100; ++k) Write(*link, {"x"});
    });
    b.reset();
    calls.reset();  // a later call would be a use after free
    other.join();
  }
}

}  // namespace
}  // namespace shoal::internal
