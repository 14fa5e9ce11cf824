// SPDX-License-Identifier: Apache-2.0
//
// How processes come together to a world, and what they hold while they are
// one.

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/base/stopwatch.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/timeouts.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/shared_counters.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

// The sum of all ranks' numbers, by way of the world.
absl::Status CheckSum(Communicator* communicator) {
  std::int64_t sum = communicator->rank() + 1;
  SHOAL_RETURN_IF_ERROR(communicator->AllReduce(
      BufferOf(absl::MakeSpan(&sum, 1)), ReduceOp::kSum));
  const std::int64_t world = communicator->world_size();
  if (sum == world * (world + 1) / 2) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the sum is ", sum));
}

// The rank that the argument names starts to join when all others have been at
// it for a while. That while is what the test is about.
SHOAL_RANK_BODY(OneIsLate) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  if (absl::StrCat(context.rank) == context.argument) {
    SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, context.world_size - 1));
    absl::SleepFor(absl::Milliseconds(300));
  } else {
    counters[0].fetch_add(1);
  }
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  if (communicator->rank() != context.rank ||
      communicator->world_size() != context.world_size) {
    return absl::InternalError("another rank or world size");
  }
  return CheckSum(communicator.get());
}

TEST(JoiningTest, AnyRankMayBeTheLast) {
  for (int world = 1; world <= 8; ++world) {
    for (int late = 0; late < world; ++late) {
      EXPECT_TRUE(
          WorldSucceeds("OneIsLate", world, {.argument = absl::StrCat(late)}));
    }
  }
}

// Starts in rank order, or against it, with the others' start as the only sign.
SHOAL_RANK_BODY(OneAfterAnother) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  const int turn = context.argument == "up"
                       ? context.rank
                       : context.world_size - 1 - context.rank;
  SHOAL_RETURN_IF_ERROR(counters.AwaitAtLeast(0, turn));
  absl::SleepFor(absl::Milliseconds(30));
  counters[0].fetch_add(1);
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  return CheckSum(communicator.get());
}

TEST(JoiningTest, RanksMayStartInAnyOrder) {
  for (int world = 2; world <= 8; ++world) {
    for (const char* order : {"up", "down"}) {
      EXPECT_TRUE(WorldSucceeds("OneAfterAnother", world, {.argument = order}));
    }
  }
}

// The rank that the argument names never joins.
SHOAL_RANK_BODY(OneNeverComes) {
  SHOAL_ASSIGN_OR_RETURN(const SharedCounters counters,
                         SharedCounters::Open(context.shared_file));
  if (absl::StrCat(context.rank) == context.argument) {
    return counters.AwaitAtLeast(0, context.world_size - 1);
  }
  Timeouts timeouts = RankContext::SlowBuildTimeouts();
  timeouts.join = absl::Seconds(2);
  const Stopwatch stopwatch;
  const absl::Status status = context.Join(timeouts).status();
  counters[0].fetch_add(1);
  if (stopwatch.Elapsed() >
      absl::Seconds(2) + absl::Seconds(5) * TimeoutScale()) {
    return absl::InternalError(
        absl::StrCat("it took ", absl::FormatDuration(stopwatch.Elapsed())));
  }
  // Who waits for rank 0 can name its address only.
  const bool rank_0_is_missing = context.argument == "0";
  return ExpectStatus(status, absl::StatusCode::kDeadlineExceeded,
                      {rank_0_is_missing ? getenv("SHOAL_ADDRESS")
                                         : "rank " + context.argument});
}

TEST(JoiningTest, ARankThatNeverComesIsNamed) {
  for (const char* missing : {"0", "1", "3"}) {
    EXPECT_TRUE(WorldSucceeds("OneNeverComes", 4, {.argument = missing}));
  }
}

std::set<int> OpenDescriptors() {
  std::set<int> descriptors;
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return descriptors;
  while (const struct dirent* entry = readdir(directory)) {
    int descriptor;
    if (absl::SimpleAtoi(entry->d_name, &descriptor) &&
        descriptor != dirfd(directory)) {
      descriptors.insert(descriptor);
    }
  }
  closedir(directory);
  return descriptors;
}

SHOAL_RANK_BODY(Descriptors) {
  std::set<int> before = OpenDescriptors();
  int inherited = -1;
  if (const char* variable = getenv("SHOAL_LISTEN_FD"); variable != nullptr) {
    if (!absl::SimpleAtoi(variable, &inherited)) {
      return absl::InternalError("SHOAL_LISTEN_FD is no number");
    }
  }
  {
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                           context.Join());
    SHOAL_RETURN_IF_ERROR(CheckSum(communicator.get()));
    // Links for messages are opened at first use.
    const std::uint8_t out = 0;
    std::uint8_t in = 0;
    SHOAL_RETURN_IF_ERROR(communicator->SendRecv(
        {&out, 1, DType::kU8}, (context.rank + 1) % context.world_size,
        {&in, 1, DType::kU8},
        (context.rank + context.world_size - 1) % context.world_size));
    int own = 0;
    for (const int descriptor : OpenDescriptors()) {
      if (before.count(descriptor) != 0 && descriptor != inherited) continue;
      ++own;
      const int flags = fcntl(descriptor, F_GETFD);
      if ((flags & FD_CLOEXEC) == 0) {
        return absl::InternalError(
            absl::StrCat("descriptor ", descriptor, " would be inherited"));
      }
    }
    if (own == 0 && context.world_size > 1) {
      return absl::InternalError("no descriptors, so nothing was checked");
    }
    SHOAL_RETURN_IF_ERROR(communicator->Barrier());
  }
  before.erase(inherited);
  if (OpenDescriptors() != before) {
    return absl::InternalError("descriptors were left open");
  }
  return absl::OkStatus();
}

TEST(JoiningTest, DescriptorsAreCloseOnExecAndClosedAtTheEnd) {
  for (int world = 1; world <= 8; ++world) {
    EXPECT_TRUE(WorldSucceeds("Descriptors", world));
  }
}

// The whole life of a world, as short as can be: whoever is first to be done
// leaves while others still read what it sent.
SHOAL_RANK_BODY(InAndOut) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  return communicator->Barrier();
}

TEST(LeavingTest, NobodyIsHurtByTheFirstToLeave) {
  for (int world = 1; world <= 8; ++world) {
    for (int round = 0; round < 5; ++round) {
      ASSERT_TRUE(WorldSucceeds("InAndOut", world));
    }
  }
}

}  // namespace
}  // namespace shoal::tests
