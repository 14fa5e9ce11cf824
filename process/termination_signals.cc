// SPDX-License-Identifier: Apache-2.0

#include "shoal/process/termination_signals.h"

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <iterator>
#include <type_traits>

namespace shoal {
namespace {

std::atomic<int> last_signal{0};
static_assert(std::atomic<int>::is_always_lock_free,
              "a signal handler writes it");

void Note(int signal) { last_signal.store(signal); }

}  // namespace

TerminationSignals::TerminationSignals() {
  static_assert(std::size(kSignals) == std::extent_v<decltype(before_)>);
  last_signal.store(0);
  // Without SA_RESTART: a wait in a system call ends.
  struct sigaction note = {};
  note.sa_handler = Note;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    const bool stays_ignored =
        kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN;
    if (!stays_ignored) sigaction(kSignals[i], &note, nullptr);
  }
}

TerminationSignals::~TerminationSignals() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &before_[i], nullptr);
  }
}

int TerminationSignals::received() const { return last_signal.load(); }

}  // namespace shoal
