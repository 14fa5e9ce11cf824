// SPDX-License-Identifier: Apache-2.0
//
// Macros that hand an error to the caller.
//
// Both work in functions that return absl::Status or absl::StatusOr<T>. They
// are for Shoal's own code and stay out of its public headers.

#ifndef SHOAL_BASE_STATUS_MACROS_H_
#define SHOAL_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shoal/base/dialect.h"

// Evaluates `expression`, an absl::Status, once. Returns it from the enclosing
// function if it is an error.
//
//   SHOAL_RETURN_IF_ERROR(CheckRank(rank, world_size));
//
// The empty branch keeps an `else` that follows the macro from binding to its
// `if`.
#define SHOAL_RETURN_IF_ERROR(expression)                   \
  if (::absl::Status shoal_status_to_return = (expression); \
      ABSL_PREDICT_TRUE(shoal_status_to_return.ok())) {     \
  } else /* NOLINT(readability/braces) */                   \
    return shoal_status_to_return

// Evaluates `expression`, an absl::StatusOr<T>, once. Returns its status from
// the enclosing function if it is an error, else assigns its value to `target`,
// which may be a declaration:
//
//   SHOAL_ASSIGN_OR_RETURN(const Plan plan, MakePlan(options));
//   SHOAL_ASSIGN_OR_RETURN(plan_, MakePlan(options));
//
// It is several statements, so it needs braces under an `if`. A type with a
// comma in it is written as `auto` or under another name.
#define SHOAL_ASSIGN_OR_RETURN(target, expression) \
  SHOAL_INTERNAL_ASSIGN_OR_RETURN(                 \
      SHOAL_INTERNAL_CONCAT(shoal_status_or_, __LINE__), target, expression)

#define SHOAL_INTERNAL_ASSIGN_OR_RETURN(status_or, target, expression) \
  auto status_or = (expression);                                       \
  if (ABSL_PREDICT_FALSE(!status_or.ok())) {                           \
    return std::move(status_or).status();                              \
  }                                                                    \
  target = *std::move(status_or)

#define SHOAL_INTERNAL_CONCAT(a, b) SHOAL_INTERNAL_CONCAT_EXPANDED(a, b)
#define SHOAL_INTERNAL_CONCAT_EXPANDED(a, b) a##b

#endif  // SHOAL_BASE_STATUS_MACROS_H_
