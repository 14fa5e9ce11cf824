// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/environment.h"

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/tcp_communicator.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal {
namespace {

constexpr char kRank[] = "SHOAL_RANK";
constexpr char kWorldSize[] = "SHOAL_WORLD_SIZE";
constexpr char kAddress[] = "SHOAL_ADDRESS";
constexpr char kListenFd[] = "SHOAL_LISTEN_FD";
constexpr char kJobId[] = "SHOAL_JOB_ID";
constexpr char kJoinTimeout[] = "SHOAL_JOIN_TIMEOUT";
constexpr char kTimeout[] = "SHOAL_TIMEOUT";
constexpr char kAlgorithms[] = "SHOAL_ALGO";

using Lookup = std::function<std::optional<std::string>(absl::string_view)>;

std::optional<std::string> FromProcess(absl::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

// An empty variable is as good as none: shells make it hard to unset one.
std::optional<std::string> Find(const Lookup& lookup, absl::string_view name) {
  std::optional<std::string> value = lookup(name);
  if (value.has_value() && value->empty()) return std::nullopt;
  return value;
}

absl::Status BadValue(absl::string_view name, absl::string_view value,
                      absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is \"", value, "\"; it must be ", wanted));
}

absl::StatusOr<std::optional<int>> FindInt(const Lookup& lookup,
                                           absl::string_view name) {
  const std::optional<std::string> text = Find(lookup, name);
  if (!text.has_value()) return std::nullopt;
  int value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < 0) {
    return BadValue(name, *text, "a number, 0 or more");
  }
  return value;
}

// "90" is seconds; otherwise Abseil's form: "90s", "1m30s", "inf".
absl::Status FindTimeout(const Lookup& lookup, absl::string_view name,
                         absl::Duration* timeout) {
  const std::optional<std::string> text = Find(lookup, name);
  if (!text.has_value()) return absl::OkStatus();
  double seconds = 0;
  if (absl::SimpleAtod(*text, &seconds)) {
    // Abseil takes what is no number for infinity.
    *timeout = absl::Seconds(std::isnan(seconds) ? 0 : seconds);
  } else if (!absl::ParseDuration(*text, timeout)) {
    return BadValue(name, *text, "a time such as 90s, 2m or 90 (seconds)");
  }
  if (*timeout <= absl::ZeroDuration()) {
    return BadValue(name, *text, "more than 0");
  }
  return absl::OkStatus();
}

absl::Status CheckComplete(const std::optional<int>& rank,
                           const std::optional<int>& world_size,
                           bool has_address) {
  std::vector<std::string> missing;
  if (!rank.has_value() && world_size != 1) {
    missing.push_back(absl::StrCat(kRank, " (--rank)"));
  }
  if (!world_size.has_value()) {
    missing.push_back(absl::StrCat(kWorldSize, " (--world_size)"));
  }
  if (!has_address && world_size != 1) {
    missing.push_back(absl::StrCat(kAddress, " (--address)"));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no world to join: ", absl::StrJoin(missing, ", "),
                   missing.size() == 1 ? " is" : " are", " not set"));
}

absl::Status SetFlag(absl::string_view name, const std::string& text,
                     std::optional<int>* flag) {
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) {
    return BadValue(absl::StrCat("--", name), text, "a number, 0 or more");
  }
  *flag = value;
  return absl::OkStatus();
}

// Sets the flag that `name` names. False: it names none of ours.
absl::StatusOr<bool> TakeFlag(absl::string_view name,
                              const std::optional<std::string>& value,
                              WorldOptions* options) {
  const bool known =
      name == "rank" || name == "world_size" || name == "address";
  if (!known) return false;
  if (!value.has_value() || value->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " needs a value"));
  }
  const bool twice = (name == "rank" && options->rank) ||
                     (name == "world_size" && options->world_size) ||
                     (name == "address" && options->address);
  if (twice) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is given twice"));
  }
  if (name == "address") {
    options->address = *value;
    return true;
  }
  SHOAL_RETURN_IF_ERROR(SetFlag(
      name, *value, name == "rank" ? &options->rank : &options->world_size));
  return true;
}

}  // namespace

absl::StatusOr<WorldOptions> TakeWorldFlags(
    std::vector<std::string>* arguments) {
  WorldOptions options;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < arguments->size(); ++i) {
    const std::string& argument = (*arguments)[i];
    if (argument == "--") {
      others.insert(others.end(), arguments->begin() + i, arguments->end());
      break;
    }
    absl::string_view name = argument;
    const bool is_flag = absl::ConsumePrefix(&name, "-");
    absl::ConsumePrefix(&name, "-");
    std::optional<std::string> value;
    const std::size_t equals = name.find('=');
    const bool in_one = equals != absl::string_view::npos;
    if (in_one) {
      value = std::string(name.substr(equals + 1));
      name = name.substr(0, equals);
    } else if (i + 1 < arguments->size()) {
      value = (*arguments)[i + 1];
    }
    bool ours = false;
    if (is_flag) {
      SHOAL_ASSIGN_OR_RETURN(ours, TakeFlag(name, value, &options));
    }
    if (!ours) others.push_back(argument);
    if (ours && !in_one) ++i;
  }
  *arguments = std::move(others);
  return options;
}

bool HasWorld(const EnvironmentOptions& options) {
  const Lookup lookup = options.lookup ? options.lookup : Lookup(&FromProcess);
  return options.world.any() || Find(lookup, kRank) ||
         Find(lookup, kWorldSize) || Find(lookup, kAddress);
}

absl::StatusOr<TcpOptions> TcpOptionsFromEnvironment(
    EnvironmentOptions options) {
  const Lookup lookup = options.lookup ? options.lookup : Lookup(&FromProcess);
  std::optional<int> rank = options.world.rank;
  if (!rank.has_value()) {
    SHOAL_ASSIGN_OR_RETURN(rank, FindInt(lookup, kRank));
  }
  std::optional<int> world_size = options.world.world_size;
  if (!world_size.has_value()) {
    SHOAL_ASSIGN_OR_RETURN(world_size, FindInt(lookup, kWorldSize));
  }
  std::optional<std::string> address = options.world.address;
  if (!address.has_value()) address = Find(lookup, kAddress);
  SHOAL_RETURN_IF_ERROR(CheckComplete(rank, world_size, address.has_value()));

  TcpOptions result = std::move(options.defaults);
  result.rank = rank.value_or(0);
  result.world_size = *world_size;
  result.address = address.value_or("");
  if (result.world_size == 0) {
    return BadValue(options.world.world_size ? "--world_size" : kWorldSize, "0",
                    "1 or more");
  }
  if (result.rank >= result.world_size) {
    return BadValue(
        options.world.rank ? "--rank" : kRank, absl::StrCat(result.rank),
        absl::StrCat("less than the world size, ", result.world_size));
  }
  if (const std::optional<std::string> job = Find(lookup, kJobId)) {
    result.job_id = *job;
  }
  SHOAL_RETURN_IF_ERROR(
      FindTimeout(lookup, kJoinTimeout, &result.timeouts.join));
  SHOAL_RETURN_IF_ERROR(
      FindTimeout(lookup, kTimeout, &result.timeouts.operation));
  // Only rank 0's counts.
  if (const std::optional<std::string> text = Find(lookup, kAlgorithms);
      text.has_value() && result.rank == 0) {
    const absl::Status status =
        OverrideAlgorithms(*text, &result.algorithm_policy);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(kAlgorithms, " is \"", *text, "\": ", status.message()));
    }
  }
  // A launcher may give the same environment to all ranks; only rank 0 has
  // inherited the descriptor. Rank 0 takes it over also where it is alone and
  // does not listen, because nobody else would close it.
  if (result.rank == 0) {
    SHOAL_ASSIGN_OR_RETURN(const std::optional<int> descriptor,
                           FindInt(lookup, kListenFd));
    if (descriptor.has_value()) {
      SHOAL_ASSIGN_OR_RETURN(result.listener,
                             TcpListener::FromDescriptor(*descriptor));
    }
  }
  return result;
}

absl::StatusOr<std::unique_ptr<Communicator>> CommunicatorFromEnvironment(
    EnvironmentOptions options) {
  SHOAL_ASSIGN_OR_RETURN(TcpOptions tcp,
                         TcpOptionsFromEnvironment(std::move(options)));
  return TcpCommunicator::Create(std::move(tcp));
}

}  // namespace shoal
