// SPDX-License-Identifier: Apache-2.0

#include "shoal/process/termination_signals.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace shoal {
namespace {

using Handler = void (*)(int);

Handler HandlerOf(int signal) {
  struct sigaction action;
  sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

TEST(TerminationSignalsTest, NotesTheLastOne) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TerminationSignals signals;
    EXPECT_EQ(signals.received(), 0);
    raise(signal);
    EXPECT_EQ(signals.received(), signal);
    raise(SIGTERM);
    EXPECT_EQ(signals.received(), SIGTERM);
  }
}

TEST(TerminationSignalsTest, PutsBackWhatWasThere) {
  const Handler before = HandlerOf(SIGINT);
  {
    const TerminationSignals signals;
    EXPECT_NE(HandlerOf(SIGINT), before);
  }
  EXPECT_EQ(HandlerOf(SIGINT), before);
}

TEST(TerminationSignalsTest, LeavesNohupInForce) {
  const Handler before = signal(SIGHUP, SIG_IGN);
  {
    const TerminationSignals signals;
    raise(SIGHUP);
    EXPECT_EQ(signals.received(), 0);
    EXPECT_EQ(HandlerOf(SIGHUP), SIG_IGN);
  }
  signal(SIGHUP, before);
}

}  // namespace
}  // namespace shoal
