// SPDX-License-Identifier: Apache-2.0
//
// Notices that somebody wants this process to end, instead of ending at once.
//
//   TerminationSignals signals;
//   while (...) {
//     children->Step(...);  // returns early when a signal arrives
//     if (signals.received() != 0) children->SignalAll(signals.received());
//   }
//
// From construction to destruction SIGINT (Ctrl-C), SIGTERM and SIGHUP are only
// noted; SIGHUP stays ignored where it is ignored already (nohup). One object
// at a time in a process.

#ifndef SHOAL_PROCESS_TERMINATION_SIGNALS_H_
#define SHOAL_PROCESS_TERMINATION_SIGNALS_H_

#include <signal.h>

#include "shoal/base/dialect.h"

namespace shoal {

class TerminationSignals {
 public:
  TerminationSignals();
  ~TerminationSignals();

  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // The last of them that has arrived; 0: none. Thread-safe.
  int received() const;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

  struct sigaction before_[3];
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_TERMINATION_SIGNALS_H_
