// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/algorithm.h"

#include <array>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal {
namespace {

// Null for a value that is none of the enumerators.
const char* NameOrNull(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
      return "auto";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kRecursiveDoubling:
      return "recursive-doubling";
    case Algorithm::kBinomialTree:
      return "binomial-tree";
    case Algorithm::kDissemination:
      return "dissemination";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kOneShot:
      return "one-shot";
    case Algorithm::kHalvingDoubling:
      return "halving-doubling";
    case Algorithm::kChain:
      return "chain";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kLinear:
      return "linear";
    case Algorithm::kPairwise:
      return "pairwise";
  }
  return nullptr;
}

// What a view of any value's name refers to.
std::array<std::string, 256> MakeNames() {
  std::array<std::string, 256> names;
  for (int i = 0; i < 256; ++i) {
    const char* const name = NameOrNull(static_cast<Algorithm>(i));
    names[i] = name != nullptr ? name : absl::StrCat("algorithm(", i, ")");
  }
  return names;
}

}  // namespace

bool IsValidAlgorithm(Algorithm algorithm) {
  return NameOrNull(algorithm) != nullptr;
}

absl::string_view AlgorithmName(Algorithm algorithm) {
  static const auto* const names =
      new std::array<std::string, 256>(MakeNames());
  return (*names)[static_cast<std::uint8_t>(algorithm)];
}

absl::StatusOr<Algorithm> ParseAlgorithm(absl::string_view name) {
  std::string choice;
  for (const Algorithm algorithm : kAllAlgorithms) {
    if (name == NameOrNull(algorithm)) return algorithm;
    absl::StrAppend(&choice, choice.empty() ? "" : ", ", NameOrNull(algorithm));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown algorithm \"", name, "\"; choose one of ", choice));
}

std::ostream& operator<<(std::ostream& out, Algorithm algorithm) {
  return out << AlgorithmName(algorithm);
}

}  // namespace shoal
