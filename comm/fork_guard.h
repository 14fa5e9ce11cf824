// SPDX-License-Identifier: Apache-2.0
//
// Keeps comm's sockets out of forked children.
//
// A child that holds copies of its parent's sockets keeps the connections open
// when the parent dies, and the parent's peers would wait for a time-out where
// an end of stream should have told them at once. So every socket of comm is a
// `GuardedDescriptor`: close-on-exec for children that execute a program, and
// closed by a pthread_atfork handler in those that do not.
//
// The child handler reads a table and calls close(2), both async-signal-safe. A
// fork waits while another thread is between opening a socket and entering it
// into the table, so no copy escapes. posix_spawn and vfork run no handlers;
// their children are covered by close-on-exec.
//
// In a child the table is empty: what is destroyed there closes nothing, so it
// never hits a number that the child uses for something else by then.

#ifndef SHOAL_COMM_FORK_GUARD_H_
#define SHOAL_COMM_FORK_GUARD_H_

#include <cstdint>
#include <thread>

#include "absl/functional/function_ref.h"
#include "shoal/base/dialect.h"

namespace shoal::internal {

// Owns one descriptor of the table. Movable. Threads: one at a time.
class GuardedDescriptor {
 public:
  GuardedDescriptor() = default;

  // Runs `open`, which returns a new descriptor or -1 with errno, and enters
  // the result; no fork happens in between. An invalid one keeps errno. A
  // number beyond the table's end (about a million) is EMFILE.
  static GuardedDescriptor Open(absl::FunctionRef<int()> open);

  // Enters a descriptor that exists already, and sets close-on-exec.
  static GuardedDescriptor Adopt(int descriptor);

  GuardedDescriptor(GuardedDescriptor&& other) noexcept;
  GuardedDescriptor& operator=(GuardedDescriptor&& other) noexcept;
  ~GuardedDescriptor() { Close(); }

  bool valid() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

  // Does nothing in a child that was forked since the descriptor was opened.
  void Close();

  // Gives it up without leaving the table: for a library that uses the
  // descriptor but does not close it. `Reclaim` takes it back.
  [[nodiscard]] int Lend();
  static GuardedDescriptor Reclaim(int descriptor);

  // Gives it up for good; it stays close-on-exec.
  [[nodiscard]] int Release();

 private:
  explicit GuardedDescriptor(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

// 0 in the process that loaded the library, one more in each forked child of
// it: tells an object whether its threads exist.
std::uint64_t ForkGeneration();

// Gives up a thread that a forked child has inherited the handle of. It neither
// joins nor detaches: the thread is not there, and its handle may by now be
// that of one which the child has started (glibc reuses the stacks).
void AbandonThread(std::thread thread);

// The number of descriptors in the table, for tests.
int CountGuardedDescriptors();

}  // namespace shoal::internal

#endif  // SHOAL_COMM_FORK_GUARD_H_
