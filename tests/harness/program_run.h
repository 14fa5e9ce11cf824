// SPDX-License-Identifier: Apache-2.0
//
// A program under test, from outside: what it prints, how it exits, and that it
// leaves nothing behind.
//
// Threads: one at a time.

#ifndef SHOAL_TESTS_HARNESS_PROGRAM_RUN_H_
#define SHOAL_TESTS_HARNESS_PROGRAM_RUN_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "shoal/base/dialect.h"
#include "shoal/base/stopwatch.h"
#include "shoal/process/child_processes.h"

namespace shoal::tests {

// One run of a program, or a few ranks of it. Whatever takes longer than a few
// minutes fails.
class ProgramRun {
 public:
  // Starts `program`, a file, once for each element of `arguments`, under the
  // file's name. The first one inherits a descriptor that listens, if that is
  // not negative.
  ProgramRun(const std::string& program,
             const std::vector<std::vector<std::string>>& arguments,
             int descriptor_of_first = -1);

  // Whether all have ended within the limit.
  bool ToTheEnd();
  // Whether the first has printed `text`.
  bool UntilPrinted(const std::string& text);

  // The processes of this run that are there now, whoever their parent is.
  std::vector<pid_t> Alive() const;
  // Whether all of them are gone soon. The programs promise two seconds; a
  // machine with other things to do gets more.
  bool AllGone() const;

  std::string LastLine(int process = 0);
  std::string& output() { return processes_->output(0); }
  std::string& errors() { return processes_->error_output(0); }
  const ChildExit& exit(int process = 0) { return processes_->exit(process); }
  void Signal(int signal);

 private:
  std::string marker_;
  const Stopwatch stopwatch_;
  std::unique_ptr<ChildProcesses> processes_;
};

// A shell that runs `command_line`, in which $0 is `program`, to its end.
std::unique_ptr<ChildProcesses> RunInShell(const std::string& program,
                                           const std::string& command_line);

std::string FileText(const std::string& path);

}  // namespace shoal::tests

#endif  // SHOAL_TESTS_HARNESS_PROGRAM_RUN_H_
