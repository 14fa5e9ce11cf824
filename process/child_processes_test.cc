// SPDX-License-Identifier: Apache-2.0

#include "shoal/process/child_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kDeadline = absl::Seconds(60);

ChildCommand Shell(const std::string& script) {
  ChildCommand command;
  command.program = "/bin/sh";
  command.arguments = {"sh", "-c", script};
  return command;
}

// Steps until all have ended. False at the deadline.
bool RunToTheEnd(ChildProcesses* children) {
  const absl::Time deadline = absl::Now() + kDeadline;
  while (children->running() > 0) {
    if (absl::Now() > deadline) return false;
    children->Step(absl::Seconds(1));
  }
  return true;
}

// Steps until child 0 has printed `text`. False at its end or the deadline.
bool StepUntilPrinted(ChildProcesses* children, const std::string& text) {
  const absl::Time deadline = absl::Now() + kDeadline;
  while (!absl::StrContains(children->output(0), text)) {
    if (absl::Now() > deadline || !children->is_running(0)) return false;
    children->Step(absl::Seconds(1));
  }
  return true;
}

// A pipe whose end tells that every process that held it is gone.
class LifeLine {
 public:
  LifeLine() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~LifeLine() {
    Release();
    close(ends_[0]);
  }

  int descriptor() const { return ends_[1]; }

  void Release() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

  // True once no process holds the other end.
  bool AwaitEnd() {
    Release();
    struct pollfd poll_descriptor = {ends_[0], POLLIN, 0};
    return poll(&poll_descriptor, 1, absl::ToInt64Milliseconds(kDeadline)) ==
               1 &&
           (poll_descriptor.revents & POLLHUP) != 0;
  }

 private:
  int ends_[2];
};

TEST(ChildExitTest, SaysWhatHappened) {
  EXPECT_EQ((ChildExit{0, 3}).ToString(), "exited with code 3");
  EXPECT_EQ((ChildExit{SIGKILL, 0}).ToString(),
            "was killed by signal 9 (SIGKILL)");
  EXPECT_TRUE((ChildExit{0, 0}).ok());
  EXPECT_FALSE((ChildExit{0, 1}).ok());
  EXPECT_FALSE((ChildExit{SIGTERM, 0}).ok());
}

TEST(ChildProcessesTest, KeepsOutputsAndExitsApart) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<ChildProcesses> children,
      ChildProcesses::Start({Shell("echo one; echo two >&2; exit 7"),
                             Shell("kill -TERM $$"), Shell("printf three")}));
  EXPECT_EQ(children->size(), 3);
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_EQ(children->output(0), "one\n");
  EXPECT_EQ(children->error_output(0), "two\n");
  EXPECT_EQ(children->exit(0).exit_code, 7);
  EXPECT_EQ(children->exit(1).signal, SIGTERM);
  EXPECT_EQ(children->output(2), "three");
  EXPECT_TRUE(children->exit(2).ok());
}

TEST(ChildProcessesTest, NoneIsFineToo) {
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ChildProcesses> children,
                             ChildProcesses::Start({}));
  EXPECT_EQ(children->running(), 0);
  children->Step(absl::ZeroDuration());
}

// Each fills both pipes many times over before it looks after the other.
TEST(ChildProcessesTest, ManyThatPrintFastDoNotBlock) {
  constexpr int kBytes = 3'000'000;
  const std::string bytes = absl::StrCat("head -c ", kBytes, " /dev/zero");
  SHOAL_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<ChildProcesses> children,
      ChildProcesses::Start(std::vector<ChildCommand>(
          8, Shell(absl::StrCat(bytes, "; ", bytes, " >&2; ", bytes)))));
  ASSERT_TRUE(RunToTheEnd(children.get()));
  for (int i = 0; i < children->size(); ++i) {
    EXPECT_TRUE(children->exit(i).ok()) << children->exit(i).ToString();
    EXPECT_EQ(children->output(i).size(), 2 * kBytes);
    EXPECT_EQ(children->error_output(i).size(), kBytes);
  }
}

TEST(ChildProcessesTest, OutputCanBeTakenAsItComes) {
  SHOAL_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<ChildProcesses> children,
      ChildProcesses::Start({Shell("echo ready; sleep 1000")}));
  ASSERT_TRUE(StepUntilPrinted(children.get(), "ready\n"));
  children->output(0).clear();
  children->Signal(0, SIGTERM);
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_THAT(children->output(0), IsEmpty());
  EXPECT_EQ(children->exit(0).signal, SIGTERM);
}

TEST(ChildProcessesTest, EnvironmentIsAddedAndReplaced) {
  ASSERT_EQ(setenv("SHOAL_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(setenv("SHOAL_TEST_REPLACED", "old", 1), 0);
  ChildCommand command =
      Shell("echo $SHOAL_TEST_KEPT $SHOAL_TEST_REPLACED $SHOAL_TEST_ADDED");
  command.environment = {{"SHOAL_TEST_REPLACED", "new"},
                         {"SHOAL_TEST_ADDED", "a=b c"}};
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ChildProcesses> children,
                             ChildProcesses::Start({command}));
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_EQ(children->output(0), "kept new a=b c\n");
}

TEST(ChildProcessesTest, OnlyTheDescriptorsGivenAreInherited) {
  LifeLine given;
  LifeLine kept;
  ChildCommand command = Shell(absl::StrCat(
      "test -e /proc/self/fd/", given.descriptor(), " && echo given; ",
      "test -e /proc/self/fd/", kept.descriptor(), " || echo kept"));
  command.inherited_descriptors = {given.descriptor()};
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ChildProcesses> children,
                             ChildProcesses::Start({command}));
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_EQ(children->output(0), "given\nkept\n");
}

// The child's own streams would replace them unseen.
TEST(ChildProcessesTest, StandardDescriptorsCannotBeInherited) {
  for (const int descriptor : {-1, 0, 1, 2}) {
    ChildCommand command = Shell("true");
    command.inherited_descriptors = {descriptor};
    EXPECT_THAT(ChildProcesses::Start({Shell("true"), command}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("descriptor ", descriptor))));
  }
}

// A parent that ignores SIGPIPE must not hand that on.
TEST(ChildProcessesTest, SignalsHaveTheirDefaultMeaning) {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGPIPE, &ignore, &before), 0);
  SHOAL_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<ChildProcesses> children,
      ChildProcesses::Start({Shell("kill -PIPE $$; echo survived")}));
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_EQ(children->exit(0).signal, SIGPIPE);
  sigaction(SIGPIPE, &before, nullptr);
}

TEST(ChildProcessesTest, StandardInputIsEmpty) {
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ChildProcesses> children,
                             ChildProcesses::Start({Shell("cat; echo end")}));
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_EQ(children->output(0), "end\n");
}

TEST(ChildProcessesTest, AProgramThatIsNotThereIsAnErrorAndEndsTheOthers) {
  LifeLine life_line;
  ChildCommand first = Shell("sleep 1000");
  first.inherited_descriptors = {life_line.descriptor()};
  ChildCommand second;
  second.program = "/nowhere/program";
  second.arguments = {"program"};
  EXPECT_THAT(ChildProcesses::Start({first, second}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("child process 1 (/nowhere/program)")));
  EXPECT_TRUE(life_line.AwaitEnd());
}

TEST(ChildProcessesTest, TheDestructorKillsGrandchildrenToo) {
  LifeLine life_line;
  ChildCommand command = Shell("sleep 1000 & echo ready; sleep 1000");
  command.inherited_descriptors = {life_line.descriptor()};
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ChildProcesses> children,
                             ChildProcesses::Start({command}));
  ASSERT_TRUE(StepUntilPrinted(children.get(), "ready\n"));
  children.reset();
  EXPECT_TRUE(life_line.AwaitEnd());
}

TEST(ChildProcessesTest, WhatAChildLeavesBehindIsKilled) {
  LifeLine life_line;
  ChildCommand command = Shell("sleep 1000 & echo started");
  command.inherited_descriptors = {life_line.descriptor()};
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ChildProcesses> children,
                             ChildProcesses::Start({command}));
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_EQ(children->output(0), "started\n");
  EXPECT_TRUE(life_line.AwaitEnd());
}

TEST(ChildProcessesTest, AStoppedChildCanBeKilled) {
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ChildProcesses> children,
                             ChildProcesses::Start({Shell("kill -STOP $$")}));
  const absl::Time deadline = absl::Now() + kDeadline;
  while (!children->IsStopped(0) && absl::Now() < deadline) {
    children->Step(absl::Milliseconds(1));
  }
  EXPECT_TRUE(children->is_running(0));
  EXPECT_TRUE(children->IsStopped(0));
  children->SignalAll(SIGKILL);
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_EQ(children->exit(0).signal, SIGKILL);
  EXPECT_FALSE(children->IsStopped(0));
}

// The test program again, as a parent that is killed while its child runs.
constexpr char kParentVariable[] = "SHOAL_TEST_LIFE_LINE";

TEST(ChildProcessesTest, ChildrenDieWithAParentThatIsKilled) {
  LifeLine life_line;
  ChildCommand parent;
  parent.arguments = {"parent"};
  parent.environment = {
      {kParentVariable, absl::StrCat(life_line.descriptor())}};
  parent.inherited_descriptors = {life_line.descriptor()};
  SHOAL_ASSERT_OK_AND_ASSIGN(std::unique_ptr<ChildProcesses> children,
                             ChildProcesses::Start({parent}));
  ASSERT_TRUE(StepUntilPrinted(children.get(), "ready\n"));
  // Not the destructor's or Signal's way, which reach the whole group.
  kill(children->pid(0), SIGKILL);
  ASSERT_TRUE(RunToTheEnd(children.get()));
  EXPECT_EQ(children->exit(0).signal, SIGKILL);
  EXPECT_TRUE(life_line.AwaitEnd());
}

// What that parent does: starts a child of its own, which has its own group.
int ParentMain(const char* descriptor) {
  ChildCommand command = Shell("echo started; exec sleep 1000");
  command.inherited_descriptors.resize(1);
  if (!absl::SimpleAtoi(descriptor, &command.inherited_descriptors[0])) {
    return 2;
  }
  auto children = ChildProcesses::Start({command});
  if (!children.ok() || !StepUntilPrinted(children->get(), "started\n")) {
    return 3;
  }
  std::puts("ready");
  std::fflush(stdout);
  RunToTheEnd(children->get());
  return 4;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  if (const char* descriptor = getenv(shoal::kParentVariable);
      descriptor != nullptr) {
    return shoal::ParentMain(descriptor);
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
