// SPDX-License-Identifier: Apache-2.0
//
// An Asio loop that a test runs by itself, on its own thread, until something
// has happened.

#ifndef SHOAL_COMM_TEST_LOOP_H_
#define SHOAL_COMM_TEST_LOOP_H_

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

class TestLoop {
 public:
  boost::asio::io_context* get() { return &loop_; }

  // Runs handlers until `done` is true, which may look at more than what they
  // do; fails the test after a minute.
  void RunUntil(absl::FunctionRef<bool()> done) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::minutes(1);
    const auto work = boost::asio::make_work_guard(loop_);
    loop_.restart();
    while (!done()) {
      loop_.run_one_for(std::chrono::milliseconds(1));
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
  }

  // Runs what is ready now.
  void RunReady() {
    loop_.restart();
    loop_.poll();
  }

  // Runs until there is nothing to wait for any more.
  void RunToEnd() {
    loop_.restart();
    loop_.run_for(std::chrono::minutes(1));
    ASSERT_TRUE(loop_.stopped()) << "something is still waiting";
  }

 private:
  boost::asio::io_context loop_{1};
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_TEST_LOOP_H_
