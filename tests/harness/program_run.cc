// SPDX-License-Identifier: Apache-2.0

#include "shoal/tests/harness/program_run.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/base/stopwatch.h"
#include "shoal/process/child_processes.h"

namespace shoal::tests {
namespace {

// Far more than anything here takes: ends what would hang.
constexpr absl::Duration kLimit = absl::Minutes(3);

// By this variable all processes of a run are found.
constexpr char kMarker[] = "SHOAL_TEST_PROGRAM_RUN";

}  // namespace

ProgramRun::ProgramRun(const std::string& program,
                       const std::vector<std::vector<std::string>>& arguments,
                       int descriptor_of_first) {
  static int runs = 0;
  marker_ = absl::StrCat(getpid(), "-", ++runs);
  std::vector<ChildCommand> commands;
  for (const auto& flags : arguments) {
    ChildCommand command;
    command.program = program;
    command.arguments = {std::filesystem::path(program).filename().string()};
    command.arguments.insert(command.arguments.end(), flags.begin(),
                             flags.end());
    command.environment = {{kMarker, marker_}};
    if (commands.empty() && descriptor_of_first >= 0) {
      command.environment.emplace_back("SHOAL_LISTEN_FD",
                                       absl::StrCat(descriptor_of_first));
      command.inherited_descriptors = {descriptor_of_first};
    }
    commands.push_back(command);
  }
  auto processes = ChildProcesses::Start(commands);
  EXPECT_THAT(processes, IsOk());
  processes_ = *std::move(processes);
}

bool ProgramRun::ToTheEnd() {
  while (processes_->running() > 0 && stopwatch_.Elapsed() < kLimit) {
    processes_->Step(absl::Seconds(1));
  }
  return processes_->running() == 0;
}

bool ProgramRun::UntilPrinted(const std::string& text) {
  while (!absl::StrContains(output(), text)) {
    if (!processes_->is_running(0) || stopwatch_.Elapsed() > kLimit) {
      return false;
    }
    processes_->Step(absl::Seconds(1));
  }
  return true;
}

std::vector<pid_t> ProgramRun::Alive() const {
  const std::string wanted = absl::StrCat(kMarker, "=", marker_);
  std::vector<pid_t> alive;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    pid_t pid;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    // Nothing can be read of a process that has ended, reaped or not.
    const std::string environment = FileText(entry.path() / "environ");
    for (absl::string_view variable : absl::StrSplit(environment, '\0')) {
      if (variable == wanted) alive.push_back(pid);
    }
  }
  return alive;
}

bool ProgramRun::AllGone() const {
  const Stopwatch stopwatch;
  while (!Alive().empty()) {
    if (stopwatch.Elapsed() > absl::Seconds(20)) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

std::string ProgramRun::LastLine(int process) {
  std::vector<std::string> lines =
      absl::StrSplit(processes_->output(process), '\n');
  // The last line ends in a line feed.
  EXPECT_EQ(lines.back(), "");
  return lines.size() < 2 ? "" : lines[lines.size() - 2];
}

void ProgramRun::Signal(int signal) { kill(processes_->pid(0), signal); }

std::unique_ptr<ChildProcesses> RunInShell(const std::string& program,
                                           const std::string& command_line) {
  ChildCommand command;
  command.program = "/bin/sh";
  command.arguments = {"sh", "-c", command_line, program};
  auto processes = ChildProcesses::Start({command});
  EXPECT_THAT(processes, IsOk());
  const Stopwatch stopwatch;
  while ((*processes)->running() > 0 && stopwatch.Elapsed() < kLimit) {
    (*processes)->Step(absl::Seconds(1));
  }
  EXPECT_EQ((*processes)->running(), 0);
  return *std::move(processes);
}

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace shoal::tests
