// SPDX-License-Identifier: Apache-2.0
//
// GoogleTest assertions and matchers for absl::Status and absl::StatusOr<T>.
// For tests only.
//
//   SHOAL_EXPECT_OK(communicator->Barrier());
//   SHOAL_ASSERT_OK_AND_ASSIGN(const Plan plan, MakePlan(options));
//   EXPECT_THAT(MakePlan(options), IsOk());
//   EXPECT_THAT(MakePlan(bad), StatusIs(absl::StatusCode::kInvalidArgument,
//                                       HasSubstr("world_size must be > 0")));
//   EXPECT_THAT(Half(6), IsOkAndHolds(3));

#ifndef SHOAL_BASE_STATUS_MATCHERS_H_
#define SHOAL_BASE_STATUS_MATCHERS_H_

#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/dialect.h"

namespace shoal {
namespace internal {

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}

template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

// Matches any Status or StatusOr whose status `matcher` accepts.
class StatusMatcher {
 public:
  StatusMatcher(testing::Matcher<absl::StatusCode> code,
                testing::Matcher<const std::string&> message)
      : code_(std::move(code)), message_(std::move(message)) {}

  template <typename StatusLike>
  bool MatchAndExplain(const StatusLike& actual,
                       testing::MatchResultListener* listener) const {
    const absl::Status& status = GetStatus(actual);
    *listener << "whose status is " << status.ToString();
    return code_.Matches(status.code()) &&
           message_.Matches(std::string(status.message()));
  }

  void DescribeTo(std::ostream* os) const {
    *os << "has a status code that ";
    code_.DescribeTo(os);
    *os << " and a message that ";
    message_.DescribeTo(os);
  }

  void DescribeNegationTo(std::ostream* os) const {
    *os << "has a status code that ";
    code_.DescribeNegationTo(os);
    *os << " or a message that ";
    message_.DescribeNegationTo(os);
  }

 private:
  testing::Matcher<absl::StatusCode> code_;
  testing::Matcher<const std::string&> message_;
};

// Matches a StatusOr that is OK and whose value `value` accepts.
template <typename ValueMatcher>
class IsOkAndHoldsMatcher {
 public:
  explicit IsOkAndHoldsMatcher(ValueMatcher value) : value_(std::move(value)) {}

  template <typename StatusOrT>
  operator testing::Matcher<StatusOrT>()
      const {  // NOLINT: implicit, as gmock's
    return testing::Matcher<StatusOrT>(new Impl<StatusOrT>(value_));
  }

 private:
  template <typename StatusOrT>
  class Impl : public testing::MatcherInterface<StatusOrT> {
   public:
    using Value = typename std::remove_cv_t<
        std::remove_reference_t<StatusOrT>>::value_type;

    explicit Impl(const ValueMatcher& value)
        : value_(testing::SafeMatcherCast<const Value&>(value)) {}

    bool MatchAndExplain(
        StatusOrT actual,
        testing::MatchResultListener* listener) const override {
      if (!actual.ok()) {
        *listener << "whose status is " << actual.status().ToString();
        return false;
      }
      return value_.MatchAndExplain(*actual, listener);
    }

    void DescribeTo(std::ostream* os) const override {
      *os << "is OK and has a value that ";
      value_.DescribeTo(os);
    }

    void DescribeNegationTo(std::ostream* os) const override {
      *os << "is not OK or has a value that ";
      value_.DescribeNegationTo(os);
    }

   private:
    testing::Matcher<const Value&> value_;
  };

  ValueMatcher value_;
};

}  // namespace internal

// Matches an absl::Status or absl::StatusOr<T> whose code and message the two
// matchers accept. Either may be a plain value.
inline testing::PolymorphicMatcher<internal::StatusMatcher> StatusIs(
    testing::Matcher<absl::StatusCode> code,
    testing::Matcher<const std::string&> message) {
  return testing::MakePolymorphicMatcher(
      internal::StatusMatcher(std::move(code), std::move(message)));
}

// The same, whatever the message.
inline testing::PolymorphicMatcher<internal::StatusMatcher> StatusIs(
    testing::Matcher<absl::StatusCode> code) {
  return StatusIs(std::move(code), testing::_);
}

// Matches an absl::Status or absl::StatusOr<T> that is OK.
inline testing::PolymorphicMatcher<internal::StatusMatcher> IsOk() {
  return StatusIs(absl::StatusCode::kOk);
}

// Matches an absl::StatusOr<T> that is OK and whose value `value`, a matcher or
// a plain value, accepts.
template <typename ValueMatcher>
internal::IsOkAndHoldsMatcher<ValueMatcher> IsOkAndHolds(ValueMatcher value) {
  return internal::IsOkAndHoldsMatcher<ValueMatcher>(std::move(value));
}

}  // namespace shoal

// `expression` is an absl::Status or an absl::StatusOr<T>, evaluated once.
#define SHOAL_EXPECT_OK(expression) EXPECT_THAT(expression, ::shoal::IsOk())
#define SHOAL_ASSERT_OK(expression) ASSERT_THAT(expression, ::shoal::IsOk())

// Evaluates `expression`, an absl::StatusOr<T>, once and assigns its value to
// `target`, which may be a declaration. An error fails the test and returns
// from the enclosing function, which must return void.
#define SHOAL_ASSERT_OK_AND_ASSIGN(target, expression)                    \
  SHOAL_INTERNAL_ASSERT_OK_AND_ASSIGN(                                    \
      SHOAL_INTERNAL_MATCHERS_CONCAT(shoal_status_or_, __LINE__), target, \
      expression)

#define SHOAL_INTERNAL_ASSERT_OK_AND_ASSIGN(status_or, target, expression) \
  auto status_or = (expression);                                           \
  ASSERT_TRUE(status_or.ok())                                              \
      << #expression << " is " << status_or.status().ToString();           \
  target = *std::move(status_or)

#define SHOAL_INTERNAL_MATCHERS_CONCAT(a, b) \
  SHOAL_INTERNAL_MATCHERS_CONCAT_EXPANDED(a, b)
#define SHOAL_INTERNAL_MATCHERS_CONCAT_EXPANDED(a, b) a##b

#endif  // SHOAL_BASE_STATUS_MATCHERS_H_
