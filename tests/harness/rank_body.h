// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a multi-process test do.
//
// A test file holds bodies beside its tests:
//
//   SHOAL_RANK_BODY(Barriers) {
//     SHOAL_ASSIGN_OR_RETURN(auto communicator, context.Join());
//     return communicator->Barrier();
//   }
//
//   TEST(BarrierTest, Passes) { EXPECT_TRUE(WorldSucceeds("Barriers", 4)); }
//
// The test program runs itself again for each rank (world.h), and the harness's
// main() then calls the body in place of the tests. A body returns OK if all
// was as it should be, errors that it expects included. Otherwise it returns
// what was wrong; the rank prints that and exits with code 1. What a body
// prints is shown when the world fails.

#ifndef SHOAL_TESTS_HARNESS_RANK_BODY_H_
#define SHOAL_TESTS_HARNESS_RANK_BODY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/timeouts.h"

namespace shoal::tests {

struct RankContext {
  int rank = 0;
  int world_size = 1;
  // As the test gave it; the same for all ranks.
  std::string argument;
  // A file that all ranks of this world, and nobody else, may use. It is not
  // there at first.
  std::string shared_file;

  // Joins the world over TCP. A second call makes no sense: rank 0's listener
  // is used up.
  absl::StatusOr<std::unique_ptr<Communicator>> Join(
      const Timeouts& timeouts) const;
  absl::StatusOr<std::unique_ptr<Communicator>> Join() const;

  // The default time-outs, longer where the build is slow (see
  // `TimeoutScale`).
  static Timeouts SlowBuildTimeouts();
};

using RankBody = absl::Status (*)(const RankContext& context);

// OK if `status` has this code and its message has all of `words`; otherwise an
// error that says what it was instead.
absl::Status ExpectStatus(const absl::Status& status, absl::StatusCode code,
                          const std::vector<std::string>& words = {});

// The process is one rank of a test if the harness started it as such.
bool IsRankProcess();

// Runs the body that the environment names. Returns the exit code.
int RunRankBody();

// For SHOAL_RANK_BODY. A name may be used once a program.
bool RegisterRankBody(absl::string_view name, RankBody body);
RankBody FindRankBody(absl::string_view name);  // null: there is none

// The variables by which the harness starts a rank.
inline constexpr char kBodyVariable[] = "SHOAL_TEST_BODY";
inline constexpr char kArgumentVariable[] = "SHOAL_TEST_ARGUMENT";

}  // namespace shoal::tests

#define SHOAL_RANK_BODY(name)                                            \
  static absl::Status ShoalRankBody_##name(                              \
      const ::shoal::tests::RankContext& context);                       \
  [[maybe_unused]] static const bool shoal_rank_body_registered_##name = \
      ::shoal::tests::RegisterRankBody(#name, &ShoalRankBody_##name);    \
  static absl::Status ShoalRankBody_##name(                              \
      [[maybe_unused]] const ::shoal::tests::RankContext& context)

#endif  // SHOAL_TESTS_HARNESS_RANK_BODY_H_
