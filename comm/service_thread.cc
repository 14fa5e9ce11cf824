// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/service_thread.h"

#include <pthread.h>
#include <signal.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/fork_guard.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;

struct Registry {
  Mutex mutex;
  std::weak_ptr<ServiceThread> current ABSL_GUARDED_BY(mutex);
  std::uint64_t fork_generation ABSL_GUARDED_BY(mutex) = 0;
};

// Never destroyed: jobs may outlive the static objects.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

// Runs until the loop is stopped. What a handler throws (it has run out of
// memory) must not end the process, nor the watch over all jobs.
void RunLoop(asio::io_context* loop) {
  pthread_setname_np(pthread_self(), "shoal-service");
  const auto work = asio::make_work_guard(*loop);
  while (!loop->stopped()) {
    try {
      loop->run();
    } catch (const std::exception&) {
      continue;
    }
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<ServiceThread>> ServiceThread::Get() {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  const std::uint64_t generation = ForkGeneration();
  std::shared_ptr<ServiceThread> service = registry.current.lock();
  if (service != nullptr && registry.fork_generation == generation) {
    return service;
  }
  try {
    service.reset(new ServiceThread);
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start the service thread: ", error.what(),
                     "; if threads or descriptors have run out, raise the "
                     "limit (ulimit -u, ulimit -n)"));
  }
  registry.current = service;
  registry.fork_generation = generation;
  return service;
}

ServiceThread::ServiceThread()
    : fork_generation_(ForkGeneration()),
      loop_(std::make_unique<asio::io_context>(1)) {
  // The loop opens its descriptors with the first object that needs them. Here
  // what that throws is caught; among a job's sockets it would not be.
  const asio::steady_timer opens_descriptors(*loop_);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread(&RunLoop, loop_.get());
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ServiceThread::~ServiceThread() {
  if (fork_generation_ != ForkGeneration()) {
    // The thread is the parent's, and so is what its loop may be in the middle
    // of. The little memory is the child's loss.
    AbandonThread(std::move(thread_));
    static_cast<void>(loop_.release());
    return;
  }
  loop_->stop();
  thread_.join();
}

}  // namespace shoal::internal
