// SPDX-License-Identifier: Apache-2.0
//
// Worlds whose ranks are threads of a test, joining over loopback.

#ifndef SHOAL_COMM_BOOTSTRAP_TEST_WORLD_H_
#define SHOAL_COMM_BOOTSTRAP_TEST_WORLD_H_

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/comm/bootstrap.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal::internal {

// Collects lines from any thread, and lets a test wait for one.
class Lines {
 public:
  void Add(absl::string_view line) {
    MutexLock lock(&mutex_);
    lines_.emplace_back(line);
    added_.SignalAll();
  }

  void Await(absl::string_view text) {
    MutexLock lock(&mutex_);
    while (!HasLocked(text)) added_.Wait(&mutex_);
  }

  std::vector<std::string> lines() const {
    MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  bool HasLocked(absl::string_view text) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::any_of(lines_.begin(), lines_.end(),
                       [text](const std::string& line) {
                         return absl::StrContains(line, text);
                       });
  }

  mutable Mutex mutex_;
  CondVar added_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

// One rank that joins on a thread of its own.
class Rank {
 public:
  Rank(int rank, int world_size, std::string address) {
    options.rank = rank;
    options.world_size = world_size;
    options.address = std::move(address);
    options.job_id = "test";
    options.timeouts.join = absl::Seconds(120);
    options.log = [this](absl::string_view line) { log.Add(line); };
    options.on_state = [this](absl::string_view state) { states.Add(state); };
  }

  using JoinFunction = absl::StatusOr<JoinedWorld> (*)(BootstrapOptions);

  void Start(JoinFunction join = &Bootstrap) {
    result_ = std::async(std::launch::async, [this, join] {
      return std::make_unique<absl::StatusOr<JoinedWorld>>(
          join(std::move(options)));
    });
  }

  absl::StatusOr<JoinedWorld>& Result() {
    if (joined == nullptr) joined = result_.get();
    return *joined;
  }

  BootstrapOptions options;
  Lines log;
  Lines states;
  std::unique_ptr<absl::StatusOr<JoinedWorld>> joined;

 private:
  std::future<std::unique_ptr<absl::StatusOr<JoinedWorld>>> result_;
};

// A world whose rank 0 has its listener already.
class World {
 public:
  explicit World(int world_size, const std::string& address = "127.0.0.1:0") {
    TcpListener listener = TcpListener::Bind(address).value();
    address_ = listener.address();
    for (int rank = 0; rank < world_size; ++rank) {
      ranks.push_back(std::make_unique<Rank>(rank, world_size, address_));
    }
    ranks[0]->options.listener = std::move(listener);
  }

  const std::string& address() const { return address_; }
  void StartAll() {
    for (const auto& rank : ranks) rank->Start();
  }

  std::vector<std::unique_ptr<Rank>> ranks;

 private:
  std::string address_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_BOOTSTRAP_TEST_WORLD_H_
