// SPDX-License-Identifier: Apache-2.0

#include "shoal/tests/harness/rank_body.h"

#include <stdlib.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "shoal/base/timeout_scale.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/environment.h"
#include "shoal/comm/timeouts.h"

namespace shoal::tests {
namespace {

std::map<std::string, RankBody>& Bodies() {
  static auto& bodies = *new std::map<std::string, RankBody>;
  return bodies;
}

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Timeouts RankContext::SlowBuildTimeouts() {
  Timeouts timeouts;
  timeouts.operation *= TimeoutScale();
  timeouts.grace *= TimeoutScale();
  timeouts.answer_window *= TimeoutScale();
  return timeouts;
}

absl::StatusOr<std::unique_ptr<Communicator>> RankContext::Join() const {
  return Join(SlowBuildTimeouts());
}

absl::StatusOr<std::unique_ptr<Communicator>> RankContext::Join(
    const Timeouts& timeouts) const {
  EnvironmentOptions options;
  options.defaults.timeouts = timeouts;
  return CommunicatorFromEnvironment(std::move(options));
}

absl::Status ExpectStatus(const absl::Status& status, absl::StatusCode code,
                          const std::vector<std::string>& words) {
  const bool has_words =
      std::all_of(words.begin(), words.end(), [&status](const auto& word) {
        return absl::StrContains(status.message(), word);
      });
  if (status.code() == code && has_words) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "expected ", absl::StatusCodeToString(code), " with \"",
      absl::StrJoin(words, "\", \""), "\", got: ", status.ToString()));
}

bool RegisterRankBody(absl::string_view name, RankBody body) {
  if (Bodies().emplace(name, body).second) return true;
  std::fprintf(stderr, "two rank bodies have the name %s\n",
               std::string(name).c_str());
  abort();
}

RankBody FindRankBody(absl::string_view name) {
  const auto found = Bodies().find(std::string(name));
  return found == Bodies().end() ? nullptr : found->second;
}

bool IsRankProcess() { return getenv(kBodyVariable) != nullptr; }

int RunRankBody() {
  const std::string name = Variable(kBodyVariable);
  const RankBody body = FindRankBody(name);
  RankContext context;
  if (body == nullptr ||
      !absl::SimpleAtoi(Variable("SHOAL_RANK"), &context.rank) ||
      !absl::SimpleAtoi(Variable("SHOAL_WORLD_SIZE"), &context.world_size)) {
    std::fprintf(stderr, "no rank body \"%s\", rank or world size\n",
                 name.c_str());
    return 2;
  }
  context.argument = Variable(kArgumentVariable);
  context.shared_file = absl::StrCat(Variable("TEST_TMPDIR"), "/",
                                     Variable("SHOAL_JOB_ID"), ".shared");
  const absl::Status status = body(context);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rank %d of %d: %s\n", context.rank, context.world_size,
               status.ToString().c_str());
  return 1;
}

}  // namespace shoal::tests
