// SPDX-License-Identifier: Apache-2.0

#include "shoal/process/child_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"

extern char** environ;

namespace shoal {
namespace {

// Ends are noticed by asking: no signal handler to install in the caller's
// process, and no system call that old kernels or container filters lack.
constexpr absl::Duration kReapInterval = absl::Milliseconds(10);

// A step takes no more than this from one pipe, so that a child which prints
// without end starves nobody.
constexpr std::size_t kReadBytes = 64 * 1024;

// The most that the kernel's pipes hold by default (1 MiB), in such reads.
constexpr int kReadsAtTheEnd = 16;

void CloseDescriptor(int* descriptor) {
  if (*descriptor >= 0) close(*descriptor);
  *descriptor = -1;
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    CloseDescriptor(&read_end);
    CloseDescriptor(&write_end);
  }
};

// Moves a descriptor out of the way of 0, 1 and 2, which a parent may have been
// started without and which the child is about to replace.
absl::Status MoveAboveStandardOnes(int* descriptor) {
  if (*descriptor > STDERR_FILENO) return absl::OkStatus();
  const int moved = fcntl(*descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (moved < 0) {
    return absl::ErrnoToStatus(errno, "cannot duplicate a descriptor");
  }
  close(*descriptor);
  *descriptor = moved;
  return absl::OkStatus();
}

absl::Status OpenPipe(Pipe* pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot open a pipe");
  }
  pipe->read_end = ends[0];
  pipe->write_end = ends[1];
  SHOAL_RETURN_IF_ERROR(MoveAboveStandardOnes(&pipe->read_end));
  return MoveAboveStandardOnes(&pipe->write_end);
}

// This process's environment with `changes` on top of it.
std::vector<std::string> MakeEnvironment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable(*entry);
    const std::string name = variable.substr(0, variable.find('='));
    const bool replaced = std::any_of(
        changes.begin(), changes.end(),
        [&name](const auto& change) { return change.first == name; });
    if (!replaced) result.push_back(variable);
  }
  for (const auto& [name, value] : changes) {
    result.push_back(absl::StrCat(name, "=", value));
  }
  return result;
}

std::vector<char*> PointersTo(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// All that the child needs between fork and exec, where nothing may be
// allocated: other threads of the parent may have held the allocator's locks.
struct ExecPlan {
  pid_t parent;
  const char* program;
  char* const* arguments;
  char* const* environment;
  const std::vector<int>* inherited_descriptors;
  int output;
  int error;
  int failure;  // gets errno if exec fails; closed by exec otherwise
};

// Async-signal-safe. Runs in the child, with all signals blocked.
[[noreturn]] void Exec(const ExecPlan& plan) {
  // A handler of the parent must not run here, and what the parent ignores
  // (SIGPIPE, perhaps) must not be ignored by another program.
  struct sigaction default_action = {};
  default_action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    sigaction(signal, &default_action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  setpgid(0, 0);
  // The parent may have died before the request was made; then somebody else
  // is the parent by now.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == plan.parent) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
        dup2(plan.output, STDOUT_FILENO) >= 0 &&
        dup2(plan.error, STDERR_FILENO) >= 0) {
      for (const int descriptor : *plan.inherited_descriptors) {
        fcntl(descriptor, F_SETFD, 0);
      }
      execve(plan.program, plan.arguments, plan.environment);
    }
  }
  const int error = errno;
  // Nothing can be done about a write that fails; the parent sees the exit.
  if (write(plan.failure, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

// Forks with all signals blocked, so that the child is never in a handler.
pid_t ForkAndExec(const ExecPlan& plan) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) Exec(plan);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

// Whether the child is in the state that `kind` (WEXITED, WSTOPPED) stands for.
// Leaves it in that state.
bool IsInState(pid_t pid, int kind) {
  siginfo_t info = {};
  int result;
  do {
    result = waitid(P_PID, pid, &info, kind | WNOHANG | WNOWAIT);
  } while (result < 0 && errno == EINTR);
  return result == 0 && info.si_pid == pid;
}

void Reap(pid_t pid, int* status) {
  while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
  }
}

// 0 once exec has succeeded, errno if it failed.
int AwaitExec(int failure) {
  int error = 0;
  ssize_t bytes;
  do {
    bytes = read(failure, &error, sizeof(error));
  } while (bytes < 0 && errno == EINTR);
  return bytes == sizeof(error) ? error : 0;
}

// Reads up to kReadBytes. True if there may be more to come.
bool ReadSome(int* descriptor, std::string* text) {
  if (*descriptor < 0) return false;
  const std::size_t before = text->size();
  text->resize(before + kReadBytes);
  ssize_t bytes;
  do {
    bytes = read(*descriptor, text->data() + before, kReadBytes);
  } while (bytes < 0 && errno == EINTR);
  const int error = errno;
  text->resize(before + (bytes > 0 ? bytes : 0));
  if (bytes > 0) return true;
  if (bytes < 0 && error == EAGAIN) return false;
  CloseDescriptor(descriptor);
  return false;
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return absl::StrCat("signal ", signal,
                      name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"));
}

std::string ChildExit::ToString() const {
  if (signal == 0) return absl::StrCat("exited with code ", exit_code);
  return absl::StrCat("was killed by ", SignalName(signal));
}

absl::StatusOr<std::unique_ptr<ChildProcesses>> ChildProcesses::Start(
    const std::vector<ChildCommand>& commands) {
  std::unique_ptr<ChildProcesses> result(new ChildProcesses);
  result->children_.reserve(commands.size());
  for (const ChildCommand& command : commands) {
    if (absl::Status status = result->StartOne(command); !status.ok()) {
      return absl::Status(
          status.code(),
          absl::StrCat("cannot start child process ", result->size(), " (",
                       command.program, "): ", status.message()));
    }
  }
  return result;
}

absl::Status ChildProcesses::StartOne(const ChildCommand& command) {
  for (const int descriptor : command.inherited_descriptors) {
    if (descriptor > STDERR_FILENO) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "descriptor ", descriptor,
        " cannot be inherited: the child's standard streams take the place of "
        "0, 1 and 2; duplicate it to 3 or above"));
  }
  Pipe output;
  Pipe error;
  Pipe failure;
  SHOAL_RETURN_IF_ERROR(OpenPipe(&output));
  SHOAL_RETURN_IF_ERROR(OpenPipe(&error));
  SHOAL_RETURN_IF_ERROR(OpenPipe(&failure));
  for (const int end : {output.read_end, error.read_end}) {
    if (fcntl(end, F_SETFL, O_NONBLOCK) != 0) {
      return absl::ErrnoToStatus(errno, "cannot make a pipe non-blocking");
    }
  }
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = MakeEnvironment(command.environment);
  const std::vector<char*> argument_pointers = PointersTo(arguments);
  const std::vector<char*> environment_pointers = PointersTo(environment);

  const pid_t pid =
      ForkAndExec({.parent = getpid(),
                   .program = command.program.c_str(),
                   .arguments = argument_pointers.data(),
                   .environment = environment_pointers.data(),
                   .inherited_descriptors = &command.inherited_descriptors,
                   .output = output.write_end,
                   .error = error.write_end,
                   .failure = failure.write_end});
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  CloseDescriptor(&failure.write_end);
  if (const int exec_error = AwaitExec(failure.read_end); exec_error != 0) {
    int status;
    Reap(pid, &status);
    return absl::ErrnoToStatus(exec_error, "cannot execute it");
  }

  Child child;
  child.pid = pid;
  child.running = true;
  child.output.descriptor = std::exchange(output.read_end, -1);
  child.error.descriptor = std::exchange(error.read_end, -1);
  children_.push_back(std::move(child));
  return absl::OkStatus();
}

ChildProcesses::~ChildProcesses() {
  SignalAll(SIGKILL);
  for (Child& child : children_) {
    int status;
    if (child.running) Reap(child.pid, &status);
    CloseDescriptor(&child.output.descriptor);
    CloseDescriptor(&child.error.descriptor);
  }
}

int ChildProcesses::running() const {
  return std::count_if(children_.begin(), children_.end(),
                       [](const Child& child) { return child.running; });
}

void ChildProcesses::Step(absl::Duration limit) {
  const Stopwatch stopwatch;
  std::vector<struct pollfd> descriptors;
  for (const Child& child : children_) {
    for (const int descriptor :
         {child.output.descriptor, child.error.descriptor}) {
      if (descriptor >= 0) descriptors.push_back({descriptor, POLLIN, 0});
    }
  }
  while (!ReapEnded()) {
    const absl::Duration left =
        std::min(limit - stopwatch.Elapsed(), kReapInterval);
    if (left <= absl::ZeroDuration()) return;
    const int wait_ms = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
    const int ready = poll(descriptors.data(), descriptors.size(), wait_ms);
    if (ready == 0) continue;
    for (Child& child : children_) {
      ReadSome(&child.output.descriptor, &child.output.text);
      ReadSome(&child.error.descriptor, &child.error.text);
    }
    return;
  }
}

// True if any child has ended since the last call.
bool ChildProcesses::ReapEnded() {
  bool any = false;
  for (Child& child : children_) {
    if (!child.running || !IsInState(child.pid, WEXITED)) continue;
    any = true;
    // Whatever it left running in its group goes with it. Not reaped yet, it
    // keeps the group's number from being given to others.
    kill(-child.pid, SIGKILL);
    int status = 0;
    Reap(child.pid, &status);
    child.running = false;
    if (WIFSIGNALED(status)) child.exit.signal = WTERMSIG(status);
    if (WIFEXITED(status)) child.exit.exit_code = WEXITSTATUS(status);
    // All that it printed is in the pipes by now. Their end may never come: a
    // descendant may hold them, and even fill them.
    for (Stream* stream : {&child.output, &child.error}) {
      for (int reads = 0; reads < kReadsAtTheEnd; ++reads) {
        if (!ReadSome(&stream->descriptor, &stream->text)) break;
      }
      CloseDescriptor(&stream->descriptor);
    }
  }
  return any;
}

bool ChildProcesses::IsStopped(int child) const {
  return children_[child].running && IsInState(children_[child].pid, WSTOPPED);
}

void ChildProcesses::Signal(int child, int signal) {
  if (!children_[child].running) return;
  // The group may not exist yet: the child makes it. The child itself is not
  // reaped, so that its number is nobody else's.
  if (kill(-children_[child].pid, signal) != 0) {
    kill(children_[child].pid, signal);
  }
}

void ChildProcesses::SignalAll(int signal) {
  for (int child = 0; child < size(); ++child) Signal(child, signal);
}

}  // namespace shoal
