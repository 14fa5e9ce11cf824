// SPDX-License-Identifier: Apache-2.0
//
// A set of child processes that are started, listened to and ended together.
//
// Each child has a process group of its own, /dev/null for standard input, a
// pipe for each of its two outputs, default signal dispositions, and no
// descriptor besides those that it is given (every other one of Shoal's is
// close-on-exec). The kernel kills it when the thread that started it ends
// (PR_SET_PDEATHSIG), so that no child outlives a parent that was killed.
//
// The object is a pump without threads: `Step` moves output and notices ends,
// and the caller decides what follows. As every step reads all pipes, children
// never block on a full one for longer than the caller stays away.
//
// Lifetime: the destructor kills what still runs, with its process group, and
// reaps it. Descendants that have left the child's process group are not
// followed.
//
// Threads: `Start`, every `Step` and the destructor belong to one thread, which
// must live as long as the children should. Linux only.

#ifndef SHOAL_PROCESS_CHILD_PROCESSES_H_
#define SHOAL_PROCESS_CHILD_PROCESSES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shoal/base/dialect.h"

namespace shoal {

// What to run.
struct ChildCommand {
  // The program's file. The default is the program that is running now, even
  // when its file has been replaced.
  std::string program = "/proc/self/exe";
  // All of argv, the name included.
  std::vector<std::string> arguments;
  // On top of this process's environment; replaces variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  // Open descriptors that the child gets under the same number; above 2, as the
  // child's own standard streams take the place of 0, 1 and 2.
  std::vector<int> inherited_descriptors;
};

// "signal 9 (SIGKILL)".
std::string SignalName(int signal);

// How a child ended.
struct ChildExit {
  // The signal that killed it; 0: none, it exited.
  int signal = 0;
  int exit_code = 0;

  bool ok() const { return signal == 0 && exit_code == 0; }

  // "exited with code 3", "was killed by signal 9 (SIGKILL)".
  std::string ToString() const;
};

class ChildProcesses {
 public:
  // Starts all of them, in order. Should one fail to start, the others are
  // killed and the error names its index and program: `INVALID_ARGUMENT` for an
  // inherited descriptor that is 2 or less; otherwise `NOT_FOUND`,
  // `PERMISSION_DENIED`, `RESOURCE_EXHAUSTED` and so on, as errno has it.
  static absl::StatusOr<std::unique_ptr<ChildProcesses>> Start(
      const std::vector<ChildCommand>& commands);

  ~ChildProcesses();

  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  int size() const { return static_cast<int>(children_.size()); }
  int running() const;

  // Moves what the children have printed into `output` and `error_output`, and
  // notices which of them have ended. Waits until there is something of that
  // kind, a signal arrives, or `limit` has passed. All that a child printed
  // before its end is there when `is_running` turns false.
  void Step(absl::Duration limit);

  bool is_running(int child) const { return children_[child].running; }
  // Whether it has been stopped by a signal and not been continued.
  bool IsStopped(int child) const;
  pid_t pid(int child) const { return children_[child].pid; }
  // REQUIRES: !is_running(child).
  const ChildExit& exit(int child) const { return children_[child].exit; }

  // What has been printed and not been taken away. May be moved from.
  std::string& output(int child) { return children_[child].output.text; }
  std::string& error_output(int child) { return children_[child].error.text; }

  // Sends a signal to a child's process group; nothing happens to a child that
  // has ended.
  void Signal(int child, int signal);
  void SignalAll(int signal);

 private:
  struct Stream {
    int descriptor = -1;
    std::string text;
  };
  struct Child {
    pid_t pid = -1;
    bool running = false;
    ChildExit exit;
    Stream output;
    Stream error;
  };

  ChildProcesses() = default;

  absl::Status StartOne(const ChildCommand& command);
  bool ReapEnded();

  std::vector<Child> children_;
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_CHILD_PROCESSES_H_
