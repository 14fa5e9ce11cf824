// SPDX-License-Identifier: Apache-2.0
//
// The thread drives communicators that the tests make up. Nothing here depends
// on how fast it is: a test waits for what the thread does, and what it must
// not do is looked for while it is held inside another client's turn, or after
// it has ended.

#include "shoal/comm/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_matchers.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;
using Clock = ProgressThread::Clock;
using Turn = ProgressClient::Turn;

// Far longer than anything here takes: when it passes, something was lost.
constexpr auto kLost = std::chrono::seconds(60);

// Counts what happened, and lets another thread wait for it.
class Counter {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
    changed_.SignalAll();
  }

  int count() const {
    MutexLock lock(&mutex_);
    return count_;
  }

  // False if that never happens.
  [[nodiscard]] bool Await(int count) {
    const Clock::time_point deadline = Clock::now() + kLost;
    MutexLock lock(&mutex_);
    while (count_ < count) {
      if (!changed_.WaitUntil(&mutex_, deadline)) return false;
    }
    return true;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What happened to a client; outlives it.
struct Log {
  Counter takes;
  Counter turns;
  Counter parks;
  Counter unparks;
  Counter ends;  // of the client
};

// By default takes the role, and leaves it at its first turn. The functions run
// on the progress thread.
class FakeClient : public ProgressClient {
 public:
  explicit FakeClient(std::shared_ptr<Log> log) : log_(std::move(log)) {}
  ~FakeClient() override { log_->ends.Add(); }

  bool TakeInBackground() override {
    const bool taken = take();
    log_->takes.Add();
    return taken;
  }
  Turn TakeTurn(Clock::time_point* deadline) override {
    const Turn result = turn(deadline);
    log_->turns.Add();
    return result;
  }
  bool PrepareToPark(std::vector<pollfd>* descriptors) override {
    const bool idle = prepare(descriptors);
    log_->parks.Add();
    return idle;
  }
  void Unpark() override { log_->unparks.Add(); }

  std::function<bool()> take = [] { return true; };
  std::function<Turn(Clock::time_point*)> turn = [](Clock::time_point*) {
    return Turn::kLeft;
  };
  std::function<bool(std::vector<pollfd>*)> prepare = [](std::vector<pollfd>*) {
    return true;
  };

 private:
  const std::shared_ptr<Log> log_;
};

struct Watched {
  std::shared_ptr<Log> log = std::make_shared<Log>();
  std::shared_ptr<FakeClient> client = std::make_shared<FakeClient>(log);
};

// Holds the thread inside a turn from construction to `Release`.
class Hold {
 public:
  explicit Hold(ProgressThread* thread) {
    held_.client->turn = [inside = inside_, released = released_](auto*) {
      inside->Add();
      EXPECT_TRUE(released->Await(1));
      return Turn::kLeft;
    };
    thread->Watch(held_.client, /*urgent=*/true);
    EXPECT_TRUE(inside_->Await(1)) << "the thread takes no turn";
  }
  ~Hold() { Release(); }

  void Release() { released_->Add(); }

 private:
  const std::shared_ptr<Counter> inside_ = std::make_shared<Counter>();
  const std::shared_ptr<Counter> released_ = std::make_shared<Counter>();
  Watched held_;
};

// Reading takes it back.
class Event {
 public:
  Event() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Event() { close(descriptor_); }

  int descriptor() const { return descriptor_; }
  void Set() { ASSERT_EQ(eventfd_write(descriptor_, 1), 0); }
  bool Read() {
    eventfd_t value;
    return eventfd_read(descriptor_, &value) == 0;
  }

 private:
  const int descriptor_;
};

std::shared_ptr<ProgressThread> GetThread() {
  return ProgressThread::Get().value();
}

TEST(ProgressThreadTest, IsOneForTheProcess) {
  const std::shared_ptr<ProgressThread> thread = GetThread();
  EXPECT_EQ(GetThread(), thread);
}

TEST(ProgressThreadTest, EndsWithItsLastUserAndStartsAgain) {
  for (int i = 0; i < 3; ++i) {
    Watched watched;
    std::shared_ptr<ProgressThread> thread = GetThread();
    thread->Watch(watched.client, /*urgent=*/true);
    EXPECT_TRUE(watched.log->turns.Await(1));
    const std::weak_ptr<ProgressThread> weak = thread;
    thread.reset();
    EXPECT_TRUE(weak.expired());
    EXPECT_EQ(watched.client.use_count(), 1) << "the thread has not ended";
  }
}

TEST(ProgressThreadTest, HasANameAndTakesNoSignals) {
  Watched watched;
  std::array<char, 16> name = {};
  bool takes_any = false;
  watched.client->take = [&] {
    pthread_getname_np(pthread_self(), name.data(), name.size());
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPROF}) {
      if (!sigismember(&blocked, signal)) takes_any = true;
    }
    return false;
  };
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const std::shared_ptr<ProgressThread> thread = GetThread();
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGINT), sigismember(&before, SIGINT))
      << "the caller's mask has changed";
  thread->Watch(watched.client, /*urgent=*/true);
  ASSERT_TRUE(watched.log->takes.Await(1));
  EXPECT_STREQ(name.data(), "shoal-progress");
  EXPECT_FALSE(takes_any);
}

TEST(ProgressThreadTest, SaysThatDescriptorsHaveRunOut) {
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  rlimit none = old_limit;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::StatusOr<std::shared_ptr<ProgressThread>> thread =
      ProgressThread::Get();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
  EXPECT_THAT(thread, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("ulimit -n")));
  SHOAL_EXPECT_OK(ProgressThread::Get()) << "the failure has left a trace";
}

TEST(ProgressThreadTest, DrivesWithoutParkingUntilTheRoleIsLeft) {
  for (const bool urgent : {false, true}) {
    Watched watched;
    const std::shared_ptr<Log> log = watched.log;
    watched.client->turn = [log](auto*) {
      return log->turns.count() < 9 ? Turn::kMoved : Turn::kLeft;
    };
    const std::shared_ptr<ProgressThread> thread = GetThread();
    thread->Watch(std::move(watched.client), urgent);
    EXPECT_TRUE(log->ends.Await(1)) << "the client is not let go";
    EXPECT_EQ(log->takes.count(), 1);
    EXPECT_EQ(log->turns.count(), 10);
    EXPECT_EQ(log->parks.count(), 0);
  }
}

TEST(ProgressThreadTest, LetsGoAClientThatRefuses) {
  Watched watched;
  watched.client->take = [] { return false; };
  const std::shared_ptr<ProgressThread> thread = GetThread();
  thread->Watch(std::move(watched.client), /*urgent=*/true);
  EXPECT_TRUE(watched.log->ends.Await(1));
  EXPECT_EQ(watched.log->takes.count(), 1);
  EXPECT_EQ(watched.log->turns.count(), 0);
}

TEST(ProgressThreadTest, AClientMayBeWatchedAgain) {
  Watched watched;
  const std::shared_ptr<ProgressThread> thread = GetThread();
  for (int i = 1; i <= 5; ++i) {
    thread->Watch(watched.client, /*urgent=*/i % 2 == 0);
    ASSERT_TRUE(watched.log->turns.Await(i));
  }
}

TEST(ProgressThreadTest, ParksUntilADescriptorIsReady) {
  Watched watched;
  Event event;
  watched.client->turn = [&](auto*) {
    return event.Read() ? Turn::kLeft : Turn::kIdle;
  };
  watched.client->prepare = [&](std::vector<pollfd>* descriptors) {
    descriptors->push_back({event.descriptor(), POLLIN, 0});
    return true;
  };
  const std::shared_ptr<Log> log = watched.log;
  const std::shared_ptr<ProgressThread> thread = GetThread();
  thread->Watch(std::move(watched.client), /*urgent=*/true);
  ASSERT_TRUE(log->parks.Await(1));
  event.Set();
  EXPECT_TRUE(log->ends.Await(1));
  EXPECT_EQ(log->unparks.count(), log->parks.count());
}

TEST(ProgressThreadTest, ParksAtMostUntilTheEarliestDeadline) {
  Watched soon;
  Clock::time_point deadline = Clock::time_point::max();
  soon.client->turn = [&](Clock::time_point* next) {
    if (soon.log->turns.count() == 0) {
      deadline = Clock::now() + std::chrono::milliseconds(5);
    }
    *next = deadline;
    return Clock::now() < deadline ? Turn::kIdle : Turn::kLeft;
  };
  std::array<Watched, 2> late;  // one is driven before the other, one after it
  for (const Watched& watched : late) {
    watched.client->turn = [](Clock::time_point* next) {
      *next = Clock::now() + 2 * kLost;
      return Turn::kIdle;
    };
  }
  const std::shared_ptr<ProgressThread> thread = GetThread();
  {
    Hold hold(thread.get());  // so that all are driven at once
    thread->Watch(late[0].client, /*urgent=*/true);
    thread->Watch(std::move(soon.client), /*urgent=*/true);
    thread->Watch(late[1].client, /*urgent=*/true);
  }
  EXPECT_TRUE(soon.log->ends.Await(1)) << "slept through the deadline";
}

TEST(ProgressThreadTest, DoesNotSleepAfterADeadlineThatHasPassed) {
  Watched watched;
  const std::shared_ptr<Log> log = watched.log;
  watched.client->turn = [log](Clock::time_point* next) {
    *next = Clock::now() - std::chrono::hours(1);
    return log->turns.count() < 3 ? Turn::kIdle : Turn::kLeft;
  };
  const std::shared_ptr<ProgressThread> thread = GetThread();
  thread->Watch(std::move(watched.client), /*urgent=*/true);
  EXPECT_TRUE(log->ends.Await(1));
  EXPECT_EQ(log->turns.count(), 4);
}

// The client has found something at the last moment, and no descriptor would
// tell of it.
TEST(ProgressThreadTest, DoesNotParkWhenAClientHasSomethingToDo) {
  Watched watched;
  const std::shared_ptr<Log> log = watched.log;
  watched.client->turn = [log](auto*) {
    return log->parks.count() == 0 ? Turn::kIdle : Turn::kLeft;
  };
  watched.client->prepare = [](auto*) { return false; };
  const std::shared_ptr<ProgressThread> thread = GetThread();
  thread->Watch(std::move(watched.client), /*urgent=*/true);
  EXPECT_TRUE(log->ends.Await(1)) << "it has parked";
  EXPECT_EQ(log->parks.count(), 1);
  EXPECT_EQ(log->unparks.count(), 1);
  EXPECT_EQ(log->turns.count(), 2);
}

TEST(ProgressThreadTest, ANewClientEndsAPark) {
  for (const bool urgent : {false, true}) {
    Watched parked;
    Watched newcomer;
    parked.client->turn = [log = newcomer.log](auto*) {
      return log->takes.count() == 0 ? Turn::kIdle : Turn::kLeft;
    };
    const std::shared_ptr<ProgressThread> thread = GetThread();
    thread->Watch(std::move(parked.client), /*urgent=*/true);
    ASSERT_TRUE(parked.log->parks.Await(1));
    thread->Watch(std::move(newcomer.client), urgent);
    EXPECT_TRUE(newcomer.log->ends.Await(1)) << "it goes on sleeping";
    EXPECT_TRUE(parked.log->ends.Await(1));
  }
}

// One client that moves does not keep another from its turns.
TEST(ProgressThreadTest, DrivesAllByTurns) {
  constexpr int kClients = 5;
  constexpr int kTurns = 20;
  std::vector<Watched> all(kClients);
  std::vector<std::shared_ptr<Log>> logs;
  for (const Watched& watched : all) logs.push_back(watched.log);
  int most_apart = 0;
  for (const Watched& watched : all) {
    watched.client->turn = [&, mine = watched.log](auto*) {
      for (const auto& log : logs) {
        most_apart =
            std::max(most_apart, mine->turns.count() - log->turns.count());
      }
      return mine->turns.count() + 1 < kTurns ? Turn::kMoved : Turn::kLeft;
    };
  }
  const std::shared_ptr<ProgressThread> thread = GetThread();
  {
    Hold hold(thread.get());
    for (Watched& watched : all) {
      thread->Watch(std::move(watched.client), /*urgent=*/true);
    }
  }
  for (const auto& log : logs) {
    EXPECT_TRUE(log->ends.Await(1));
    EXPECT_EQ(log->turns.count(), kTurns);
  }
  EXPECT_LE(most_apart, 1);
}

TEST(ProgressThreadTest, WatchesAClientOnce) {
  Watched watched;
  std::shared_ptr<ProgressThread> thread = GetThread();
  {
    Hold hold(thread.get());
    thread->Watch(watched.client, /*urgent=*/false);
    thread->Watch(watched.client, /*urgent=*/true);
    thread->Watch(watched.client, /*urgent=*/false);
    EXPECT_EQ(watched.client.use_count(), 2) << "ours, and one of the thread's";
  }
  EXPECT_TRUE(watched.log->turns.Await(1));
  thread.reset();
  EXPECT_EQ(watched.log->takes.count(), 1);
}

TEST(ProgressThreadTest, ForgetsAClientThatIsUnwatched) {
  Watched forgotten;
  Watched kept;
  std::shared_ptr<ProgressThread> thread = GetThread();
  {
    Hold hold(thread.get());
    thread->Watch(forgotten.client, /*urgent=*/true);
    thread->Watch(kept.client, /*urgent=*/true);
    thread->Unwatch(forgotten.client.get());
    EXPECT_EQ(forgotten.client.use_count(), 1);
    thread->Unwatch(forgotten.client.get());  // does nothing
  }
  EXPECT_TRUE(kept.log->turns.Await(1)) << "another was forgotten with it";
  thread.reset();
  EXPECT_EQ(forgotten.log->takes.count(), 0);
}

// What destroys a client may watch another.
TEST(ProgressThreadTest, UnwatchDestroysOutsideTheLock) {
  const std::shared_ptr<ProgressThread> thread = GetThread();
  Watched other;
  const auto log = std::make_shared<Log>();
  std::shared_ptr<FakeClient> client(new FakeClient(log), [&](auto* last) {
    delete last;
    thread->Watch(other.client, /*urgent=*/true);
  });
  const FakeClient* const key = client.get();
  {
    Hold hold(thread.get());
    thread->Watch(std::move(client), /*urgent=*/true);
    thread->Unwatch(key);
    EXPECT_EQ(log->ends.count(), 1);
  }
  EXPECT_TRUE(other.log->turns.Await(1));
}

TEST(ProgressThreadTest, UnwatchLeavesADrivenClientAlone) {
  Watched watched;
  Event event;
  watched.client->turn = [&](auto*) {
    return event.Read() ? Turn::kLeft : Turn::kIdle;
  };
  watched.client->prepare = [&](std::vector<pollfd>* descriptors) {
    descriptors->push_back({event.descriptor(), POLLIN, 0});
    return true;
  };
  const FakeClient* const key = watched.client.get();
  const std::shared_ptr<ProgressThread> thread = GetThread();
  thread->Watch(std::move(watched.client), /*urgent=*/true);
  ASSERT_TRUE(watched.log->parks.Await(1));
  thread->Unwatch(key);
  event.Set();
  EXPECT_TRUE(watched.log->ends.Await(1));
}

TEST(ProgressThreadTest, EndsWhileItIsParkedOnAClient) {
  Watched watched;
  watched.client->turn = [](auto*) { return Turn::kIdle; };
  std::shared_ptr<ProgressThread> thread = GetThread();
  thread->Watch(watched.client, /*urgent=*/true);
  ASSERT_TRUE(watched.log->parks.Await(1));
  thread.reset();
  EXPECT_EQ(watched.client.use_count(), 1);
  EXPECT_EQ(watched.log->unparks.count(), watched.log->parks.count());
}

#if defined(__SANITIZE_THREAD__)
#define SHOAL_TEST_UNDER_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHOAL_TEST_UNDER_TSAN
#endif
#endif

#ifndef SHOAL_TEST_UNDER_TSAN  // which allows no thread after a fork

// 0 if all is well. Without GoogleTest, whose assertions would be lost here.
int CheckInChild(std::shared_ptr<ProgressThread> parents) {
  alarm(60);  // a hang ends the child
  std::shared_ptr<ProgressThread> thread = GetThread();
  if (thread == parents) return 1;
  parents.reset();  // must not wait for a thread that is not there
  Watched watched;
  thread->Watch(watched.client, /*urgent=*/true);
  if (!watched.log->turns.Await(1)) return 2;
  thread.reset();
  return watched.client.use_count() == 1 ? 0 : 3;
}

TEST(ProgressThreadTest, AForkedChildHasAThreadOfItsOwn) {
  std::shared_ptr<ProgressThread> thread = GetThread();
  const pid_t child = fork();
  if (child == 0) _exit(CheckInChild(std::move(thread)));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(GetThread(), thread) << "the parent's was replaced";
}

#endif  // SHOAL_TEST_UNDER_TSAN

}  // namespace
}  // namespace shoal::internal
