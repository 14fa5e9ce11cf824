// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/waker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::internal {
namespace {

// Far longer than any wake-up takes: when it passes, one was lost.
constexpr int kLostMilliseconds = 60'000;

bool PollReadable(const Waker& waker, int milliseconds) {
  pollfd entry = {waker.descriptor(), POLLIN, 0};
  int ready;
  do {
    ready = poll(&entry, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

TEST(WakerTest, DescriptorIsNonBlockingAndCloseOnExec) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const auto waker, Waker::Create());
  EXPECT_TRUE(fcntl(waker->descriptor(), F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(fcntl(waker->descriptor(), F_GETFD) & FD_CLOEXEC);
}

TEST(WakerTest, NotifyWakesAParkedWaiterOnly) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const auto waker, Waker::Create());
  waker->Notify();
  EXPECT_FALSE(PollReadable(*waker, 0)) << "nobody was parked";
  waker->PrepareToPark();
  EXPECT_FALSE(PollReadable(*waker, 0));
  waker->Notify();
  waker->Notify();
  EXPECT_TRUE(PollReadable(*waker, 0));
  waker->Unpark();
  EXPECT_FALSE(PollReadable(*waker, 0)) << "a wake-up outlived its park";
  waker->Notify();
  EXPECT_FALSE(PollReadable(*waker, 0));
}

TEST(WakerTest, UnparkWithoutNotificationEndsThePark) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const auto waker, Waker::Create());
  waker->PrepareToPark();
  waker->Unpark();
  waker->Notify();
  EXPECT_FALSE(PollReadable(*waker, 0));
}

TEST(WakerTest, NamesTheRemedyWhenDescriptorsRunOut) {
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  rlimit none = old_limit;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::StatusOr<std::unique_ptr<Waker>> waker = Waker::Create();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
  EXPECT_THAT(waker, StatusIs(absl::StatusCode::kResourceExhausted,
                              testing::HasSubstr("ulimit -n")));
}

// Each notifier hands over one turn at a time and waits until it is taken, so
// that a single lost notification stops everything. The turns are relaxed: that
// they arrive is the waker's doing alone.
void HandOver(int notifiers, int turns) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const auto waker, Waker::Create());
  std::vector<std::atomic<int>> given(notifiers);
  std::vector<std::atomic<int>> taken(notifiers);
  std::atomic<bool> lost{false};
  std::vector<std::thread> threads;
  for (int n = 0; n < notifiers; ++n) {
    threads.emplace_back([&, n] {
      std::minstd_rand random(n + 1);
      for (int turn = 1; turn <= turns && !lost; ++turn) {
        // Meets the waiter at every point of its way into the park.
        for (auto spins = random() % 256; spins > 0; --spins) {
          std::atomic_signal_fence(std::memory_order_seq_cst);
        }
        given[n].store(turn, std::memory_order_relaxed);
        waker->Notify();
        for (int tries = 0;
             taken[n].load(std::memory_order_relaxed) < turn && !lost;
             ++tries) {
          if (tries > 1000) std::this_thread::yield();
        }
      }
    });
  }
  const auto take = [&] {
    bool any = false;
    for (int n = 0; n < notifiers; ++n) {
      const int turn = given[n].load(std::memory_order_relaxed);
      if (turn == taken[n].load(std::memory_order_relaxed)) continue;
      taken[n].store(turn, std::memory_order_relaxed);
      any = true;
    }
    return any;
  };
  const auto all_taken = [&] {
    for (const auto& turn : taken) {
      if (turn < turns) return false;
    }
    return true;
  };
  while (!all_taken() && !lost) {
    if (take()) continue;
    waker->PrepareToPark();
    if (!take() && !PollReadable(*waker, kLostMilliseconds)) lost = true;
    waker->Unpark();
  }
  EXPECT_FALSE(lost) << "a notification was lost";
  for (std::thread& thread : threads) thread.join();
}

TEST(WakerTest, LosesNoNotificationOfOneNotifier) { HandOver(1, 100'000); }

TEST(WakerTest, LosesNoNotificationOfThreeNotifiers) { HandOver(3, 5'000); }

}  // namespace
}  // namespace shoal::internal
