// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/packed_buffers.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/buffer.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/pending_operation.h"

namespace shoal::internal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Buffer Of(std::vector<std::int32_t>& values) {
  return BufferOf(absl::MakeSpan(values));
}

TEST(PackedBuffersTest, CopiesThereAndBackInOrder) {
  std::vector<std::int32_t> first = {1, 2, 3};
  std::vector<std::int32_t> none;
  std::vector<std::int32_t> last = {4};
  const std::array<Buffer, 4> buffers = {
      Of(first), Buffer{nullptr, 0, DType::kI32}, Of(none), Of(last)};
  SHOAL_ASSERT_OK_AND_ASSIGN(PackedBuffers packed,
                             PackedBuffers::Pack(buffers));
  std::array<std::int32_t, 4> copy;
  std::memcpy(copy.data(), packed.data(), sizeof copy);
  EXPECT_THAT(copy, ElementsAre(1, 2, 3, 4));
  for (std::int32_t& value : copy) value *= 10;
  std::memcpy(packed.data(), copy.data(), sizeof copy);
  EXPECT_THAT(first, ElementsAre(1, 2, 3)) << "not before it is unpacked";
  char* const data = packed.data();
  PackedBuffers moved = std::move(packed);
  EXPECT_EQ(moved.data(), data) << "an operation under way uses it";
  moved.Unpack();
  EXPECT_THAT(first, ElementsAre(10, 20, 30));
  EXPECT_THAT(last, ElementsAre(40));
}

TEST(PackedBuffersTest, TakesMisalignedBuffersOfWideElements) {
  std::array<char, 32> memory;
  memory.fill('x');
  const std::array<Buffer, 2> buffers = {Buffer{&memory[1], 1, DType::kF64},
                                         Buffer{&memory[13], 2, DType::kF64}};
  SHOAL_ASSERT_OK_AND_ASSIGN(PackedBuffers packed,
                             PackedBuffers::Pack(buffers));
  std::memset(packed.data(), 'y', 24);
  packed.Unpack();
  for (int i = 0; i < 32; ++i) {
    const bool inside = (i >= 1 && i < 9) || (i >= 13 && i < 29);
    EXPECT_EQ(memory[i], inside ? 'y' : 'x') << "byte " << i;
  }
}

TEST(PackedBuffersTest, NothingIsPackedAsNothing) {
  SHOAL_ASSERT_OK_AND_ASSIGN(PackedBuffers packed, PackedBuffers::Pack({}));
  packed.Unpack();
}

// Writes 7 into all of the copy, and is done when it is told to be.
class FakeOperation : public StartedOperation {
 public:
  FakeOperation(char* data, int count, const std::atomic<bool>* done,
                absl::Status result)
      : done_(done), result_(std::move(result)) {
    const std::vector<std::int32_t> sevens(count, 7);
    std::memcpy(data, sevens.data(), count * sizeof(std::int32_t));
  }

  absl::Status Wait() override { return result_; }
  bool Test() override { return *done_; }

 private:
  const std::atomic<bool>* const done_;
  const absl::Status result_;
};

class UnpackingOperationTest : public testing::Test {
 protected:
  std::unique_ptr<UnpackingOperation> Start(absl::Status result) {
    PackedBuffers packed = PackedBuffers::Pack({Of(values_)}).value();
    auto fake = std::make_unique<FakeOperation>(
        packed.data(), static_cast<int>(values_.size()), &done_,
        std::move(result));
    return std::make_unique<UnpackingOperation>(
        std::move(packed), PendingOperation(std::move(fake)));
  }

  std::vector<std::int32_t> values_ = {1, 2, 3};
  std::atomic<bool> done_{false};
};

TEST_F(UnpackingOperationTest, WaitUnpacksOnce) {
  const auto operation = Start(absl::OkStatus());
  SHOAL_EXPECT_OK(operation->Wait());
  EXPECT_THAT(values_, Each(7));
  values_ = {4, 5, 6};  // the memory is the caller's again
  done_ = true;
  SHOAL_EXPECT_OK(operation->Wait());
  EXPECT_TRUE(operation->Test());
  EXPECT_THAT(values_, ElementsAre(4, 5, 6));
}

TEST_F(UnpackingOperationTest, TestUnpacksWhenItIsDone) {
  const auto operation = Start(absl::OkStatus());
  EXPECT_FALSE(operation->Test());
  EXPECT_THAT(values_, ElementsAre(1, 2, 3));
  done_ = true;
  EXPECT_TRUE(operation->Test());
  EXPECT_THAT(values_, Each(7));
}

TEST_F(UnpackingOperationTest, AFailureLeavesTheBuffersAsTheyWere) {
  {
    const auto operation = Start(absl::UnavailableError("rank 1 left"));
    done_ = true;
    EXPECT_TRUE(operation->Test());
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(operation->Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                              HasSubstr("rank 1 left")));
    }
  }
  EXPECT_THAT(values_, ElementsAre(1, 2, 3));
}

TEST_F(UnpackingOperationTest, AHandleThatIsDroppedUnpacks) {
  Start(absl::OkStatus()).reset();
  EXPECT_THAT(values_, Each(7));
}

// Whoever returns from Wait, or from a Test that says so, finds the result.
TEST_F(UnpackingOperationTest, AllThreadsFindTheResult) {
  for (int round = 0; round < 50; ++round) {
    values_ = {1, 2, 3};
    done_ = false;
    const auto operation = Start(absl::OkStatus());
    std::vector<std::thread> threads;
    for (const bool waits : {true, false, true, false}) {
      threads.emplace_back([&, waits] {
        if (waits) {
          SHOAL_EXPECT_OK(operation->Wait());
        } else {
          while (!operation->Test()) std::this_thread::yield();
        }
        EXPECT_THAT(values_, Each(7));
      });
    }
    done_ = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace shoal::internal
