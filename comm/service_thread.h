// SPDX-License-Identifier: Apache-2.0
//
// The one thread that watches the sockets of all jobs of a process on which no
// data travels: listeners and control links.
//
// It is started with the first job and joined when the last one has gone, and
// is parked in its loop as long as nothing happens. Handlers on the loop never
// block. It takes no signals, so that the program's handlers run on threads of
// the program.
//
// Thread-safe. The last reference must not be dropped on the loop: handlers
// hold none.

#ifndef SHOAL_COMM_SERVICE_THREAD_H_
#define SHOAL_COMM_SERVICE_THREAD_H_

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"

namespace boost {
namespace asio {
class io_context;
}  // namespace asio
}  // namespace boost

namespace shoal::internal {

class ServiceThread {
 public:
  // The process's service thread; starts it if there is none, or if it is the
  // parent's, which a fork has left behind. `RESOURCE_EXHAUSTED` when the
  // system has no thread or descriptor left.
  static absl::StatusOr<std::shared_ptr<ServiceThread>> Get();

  ~ServiceThread();

  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  boost::asio::io_context* loop() { return loop_.get(); }

 private:
  ServiceThread();

  const std::uint64_t fork_generation_;
  std::unique_ptr<boost::asio::io_context> loop_;
  std::thread thread_;
};

}  // namespace shoal::internal

#endif  // SHOAL_COMM_SERVICE_THREAD_H_
