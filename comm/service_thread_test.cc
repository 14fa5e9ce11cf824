// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/service_thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;

std::shared_ptr<ServiceThread> GetThread() {
  return ServiceThread::Get().value();
}

// Runs `task` on the loop and returns what it returns.
template <typename Task>
auto OnLoop(ServiceThread* service, Task task) {
  std::packaged_task<decltype(task())()> packaged(std::move(task));
  auto result = packaged.get_future();
  asio::post(*service->loop(), std::move(packaged));
  return result.get();
}

TEST(ServiceThreadTest, IsOneForTheProcess) {
  const std::shared_ptr<ServiceThread> service = GetThread();
  EXPECT_EQ(GetThread(), service);
  const auto get_id = [] { return std::this_thread::get_id(); };
  const std::thread::id id = OnLoop(service.get(), get_id);
  EXPECT_NE(id, std::this_thread::get_id());
  EXPECT_EQ(OnLoop(service.get(), get_id), id);
}

TEST(ServiceThreadTest, EndsWithItsLastUserAndStartsAgain) {
  for (int i = 0; i < 3; ++i) {
    std::shared_ptr<ServiceThread> service = GetThread();
    EXPECT_EQ(OnLoop(service.get(), [i] { return i; }), i);
    const std::weak_ptr<ServiceThread> weak = service;
    service.reset();
    EXPECT_TRUE(weak.expired());
  }
}

TEST(ServiceThreadTest, DestroysWhatNeverRan) {
  auto owned = std::make_shared<int>(0);
  std::shared_ptr<ServiceThread> service = GetThread();
  asio::io_context& loop = *service->loop();
  loop.stop();
  asio::post(loop, [owned] {});
  service.reset();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(ServiceThreadTest, HasANameAndTakesNoSignals) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const std::shared_ptr<ServiceThread> service = GetThread();
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGINT), sigismember(&before, SIGINT))
      << "the caller's mask has changed";
  const auto name = OnLoop(service.get(), [] {
    std::array<char, 16> name = {};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    return name;
  });
  EXPECT_STREQ(name.data(), "shoal-service");
  const bool takes_any = OnLoop(service.get(), [] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPROF}) {
      if (!sigismember(&blocked, signal)) return true;
    }
    return false;
  });
  EXPECT_FALSE(takes_any);
}

TEST(ServiceThreadTest, OutlivesAHandlerThatThrows) {
  const std::shared_ptr<ServiceThread> service = GetThread();
  asio::post(*service->loop(), [] { throw std::bad_alloc(); });
  EXPECT_EQ(OnLoop(service.get(), [] { return 5; }), 5);
}

TEST(ServiceThreadTest, SaysThatDescriptorsHaveRunOut) {
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  rlimit none = old_limit;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::StatusOr<std::shared_ptr<ServiceThread>> service =
      ServiceThread::Get();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
  EXPECT_THAT(service, StatusIs(absl::StatusCode::kResourceExhausted,
                                testing::HasSubstr("ulimit -n")));
  SHOAL_EXPECT_OK(ServiceThread::Get()) << "the failure has left a trace";
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
int CheckInChild(std::shared_ptr<ServiceThread> parents) {
  alarm(60);  // a hang ends the child
  std::shared_ptr<ServiceThread> service = GetThread();
  if (service == parents) return 1;
  parents.reset();  // must not wait for a thread that is not there
  if (OnLoop(service.get(), [] { return 5; }) != 5) return 2;
  service.reset();
  return 0;
}

TEST(ServiceThreadTest, AForkedChildHasAThreadOfItsOwn) {
  std::shared_ptr<ServiceThread> service = GetThread();
  const pid_t child = fork();
  if (child == 0) _exit(CheckInChild(std::move(service)));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(OnLoop(service.get(), [] { return 5; }), 5);
}

#endif  // SHOAL_TEST_UNDER_TSAN

}  // namespace
}  // namespace shoal::internal
