// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/fork_guard.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace shoal::internal {
namespace {

bool IsOpen(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

struct Pair {
  GuardedDescriptor guarded;
  int other = -1;
};

// One guarded end of a socket pair, and one that is not.
Pair MakePair() {
  Pair pair;
  pair.guarded = GuardedDescriptor::Open([&pair] {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return -1;
    }
    pair.other = ends[1];
    return ends[0];
  });
  return pair;
}

// Runs `check` in a forked child and returns what it returns. Without
// GoogleTest, whose assertions would be lost there.
template <typename Function>
int InChild(Function check) {
  const pid_t child = fork();
  if (child == 0) _exit(check());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkGuardTest, DescriptorsAreCounted) {
  const int before = CountGuardedDescriptors();
  Pair pair = MakePair();
  ASSERT_TRUE(pair.guarded.valid());
  EXPECT_EQ(CountGuardedDescriptors(), before + 1);
  GuardedDescriptor moved = std::move(pair.guarded);
  EXPECT_FALSE(pair.guarded.valid());
  EXPECT_EQ(CountGuardedDescriptors(), before + 1);
  const int number = moved.get();
  moved.Close();
  EXPECT_FALSE(IsOpen(number));
  EXPECT_EQ(CountGuardedDescriptors(), before);
  close(pair.other);
}

TEST(ForkGuardTest, FailedOpenKeepsErrno) {
  errno = 0;
  const GuardedDescriptor none = GuardedDescriptor::Open(
      [] { return open("/there/is/no/such/file", O_RDONLY); });
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(errno, ENOENT);
}

TEST(ForkGuardTest, LentDescriptorsStayInTheTable) {
  const int before = CountGuardedDescriptors();
  Pair pair = MakePair();
  const int lent = pair.guarded.Lend();
  EXPECT_EQ(CountGuardedDescriptors(), before + 1);
  EXPECT_EQ(InChild([lent] { return IsOpen(lent) ? 1 : 0; }), 0);
  GuardedDescriptor::Reclaim(lent).Close();
  EXPECT_FALSE(IsOpen(lent));
  EXPECT_EQ(CountGuardedDescriptors(), before);
  close(pair.other);
}

TEST(ForkGuardTest, AdoptSetsCloseOnExecAndGuards) {
  const int plain = open("/dev/null", O_RDONLY);
  GuardedDescriptor adopted = GuardedDescriptor::Adopt(plain);
  EXPECT_EQ(fcntl(plain, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(InChild([plain] { return IsOpen(plain) ? 1 : 0; }), 0);
  const int released = adopted.Release();
  EXPECT_EQ(released, plain);
  EXPECT_EQ(InChild([plain] { return IsOpen(plain) ? 1 : 0; }), 1);
  close(plain);
  EXPECT_FALSE(GuardedDescriptor::Adopt(plain).valid());
}

TEST(ForkGuardTest, ChildHoldsNoCopyOpen) {
  Pair pair = MakePair();
  int gate[2];
  int running[2];
  ASSERT_EQ(pipe(gate), 0);
  ASSERT_EQ(pipe(running), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 'r';
    close(gate[1]);
    if (write(running[1], &byte, 1) != 1) _exit(2);
    // Lives until the parent has seen what it has to see.
    _exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(gate[0]);
  char byte;
  ASSERT_EQ(read(running[0], &byte, 1), 1);
  pair.guarded.Close();
  // With a copy in the child this would wait for ever; so it does not wait.
  EXPECT_EQ(recv(pair.other, &byte, 1, MSG_DONTWAIT), 0);
  close(gate[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(running[0]);
  close(running[1]);
  close(pair.other);
}

TEST(ForkGuardTest, ManyDescriptorsAreAllClosed) {
  std::vector<GuardedDescriptor> many;
  for (int i = 0; i < 300; ++i) {
    many.push_back(
        GuardedDescriptor::Open([] { return open("/dev/null", O_RDONLY); }));
    ASSERT_TRUE(many.back().valid());
  }
  EXPECT_EQ(InChild([&many] {
              int left = 0;
              for (const GuardedDescriptor& one : many) {
                if (IsOpen(one.get())) ++left;
              }
              return left == 0 ? 0 : 1;
            }),
            0);
}

TEST(ForkGuardTest, WhatIsDestroyedInTheChildClosesNothing) {
  Pair pair = MakePair();
  EXPECT_EQ(InChild([&pair] {
              // The number is free there, and the child uses it for itself.
              const int own = dup2(0, pair.guarded.get());
              if (own != pair.guarded.get()) return 1;
              pair.guarded.Close();
              return IsOpen(own) ? 0 : 2;
            }),
            0);
  close(pair.other);
}

TEST(ForkGuardTest, GenerationTellsChildren) {
  const auto here = ForkGeneration();
  EXPECT_EQ(InChild([here] { return ForkGeneration() == here + 1 ? 0 : 1; }),
            0);
  EXPECT_EQ(ForkGeneration(), here);
}

}  // namespace
}  // namespace shoal::internal
