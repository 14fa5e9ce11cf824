// SPDX-License-Identifier: Apache-2.0
//
// Send, Recv, SendRecv and the pipeline between processes.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/communicator.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/pipeline.h"
#include "shoal/tests/comm/test_vector.h"
#include "shoal/tests/harness/rank_body.h"
#include "shoal/tests/harness/world.h"

namespace shoal::tests {
namespace {

// Bytes below, at and above what goes with its header in one read (16 KiB) and
// what goes eagerly (256 KiB), and far above.
constexpr std::int64_t kSizes[] = {0,       1,       7,       16'385,
                                   262'143, 262'144, 262'145, 1'000'003};

// The sender's number for the data of a message, so that any two differ.
int Identity(int from, int to, int message) {
  return (from * 8 + to) * 64 + message;
}

absl::Status Send(Communicator* communicator, DType dtype, std::int64_t count,
                  int to, int tag, int message) {
  TestVector vector(dtype, count, 1);
  vector.Fill(Identity(communicator->rank(), to, message));
  return communicator->Send(vector.const_buffer(), to, tag);
}

absl::Status Check(const TestVector& vector, int identity) {
  SHOAL_RETURN_IF_ERROR(vector.CheckGuards());
  for (std::int64_t i = 0; i < vector.count(); ++i) {
    if (vector.Bits(i) == InputBits(vector.dtype(), identity, i)) continue;
    return absl::DataLossError(absl::StrCat("element ", i, " of ",
                                            vector.count(), " of message ",
                                            identity, " is wrong"));
  }
  return absl::OkStatus();
}

absl::Status Recv(Communicator* communicator, DType dtype, std::int64_t count,
                  int from, int tag, int message) {
  TestVector vector(dtype, count, 1);
  SHOAL_RETURN_IF_ERROR(communicator->Recv(vector.buffer(), from, tag));
  return Check(vector, Identity(from, communicator->rank(), message));
}

// One pair after the other, both directions, every size.
SHOAL_RANK_BODY(AllPairs) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  int message = 0;
  for (int from = 0; from < context.world_size; ++from) {
    for (int to = 0; to < context.world_size; ++to) {
      if (from == to) continue;
      for (const std::int64_t bytes : kSizes) {
        const DType dtype = kAllDTypes[++message % 8];
        const std::int64_t count =
            bytes / static_cast<std::int64_t>(DTypeSize(dtype));
        if (context.rank == from) {
          SHOAL_RETURN_IF_ERROR(
              Send(communicator.get(), dtype, count, to, 3, message % 64));
        }
        if (context.rank == to) {
          SHOAL_RETURN_IF_ERROR(
              Recv(communicator.get(), dtype, count, from, 3, message % 64));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Exchange(Communicator* communicator, std::int64_t bytes, int to,
                      int from, int message) {
  TestVector out(DType::kU8, bytes);
  TestVector in(DType::kU8, bytes, 1);
  out.Fill(Identity(communicator->rank(), to, message));
  SHOAL_RETURN_IF_ERROR(communicator->SendRecv(
      out.const_buffer(), to, in.buffer(), from, /*tag=*/message));
  return Check(in, Identity(from, communicator->rank(), message));
}

// All ranks at once: around the ring by every distance, and each with each.
SHOAL_RANK_BODY(Exchanges) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  const int world = context.world_size;
  int message = 0;
  for (const std::int64_t bytes : kSizes) {
    for (int distance = 0; distance < world; ++distance) {
      SHOAL_RETURN_IF_ERROR(
          Exchange(communicator.get(), bytes, (context.rank + distance) % world,
                   (context.rank + world - distance) % world, message));
    }
    // Partners whose numbers add up to `sum` exchange; some are their own.
    for (int sum = 0; sum < world; ++sum) {
      const int partner = (sum + world - context.rank) % world;
      SHOAL_RETURN_IF_ERROR(
          Exchange(communicator.get(), bytes, partner, partner, message));
    }
    ++message;
  }
  return absl::OkStatus();
}

// Rank 0 sends with many tags, and rank 1 receives them in other orders.
SHOAL_RANK_BODY(TagsOutOfOrder) {
  constexpr int kTags = 20;
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  Communicator* const c = communicator.get();
  if (context.rank == 0) {
    for (int tag = 0; tag < kTags; ++tag) {
      SHOAL_RETURN_IF_ERROR(Send(c, DType::kU8, 8000, 1, tag, tag));
    }
    // A large one that is wanted passes small ones that are not.
    SHOAL_RETURN_IF_ERROR(Send(c, DType::kF32, 300'000, 1, 100, 60));
    SHOAL_RETURN_IF_ERROR(c->Barrier());
    // To a partner that is at its SendRecv with another rank's message unread.
    return Exchange(c, 500'000, 1, 1, 61);
  }
  if (context.rank == 1) {
    SHOAL_RETURN_IF_ERROR(Recv(c, DType::kF32, 300'000, 0, 100, 60));
    for (int tag = kTags - 1; tag >= 0; tag -= 2) {
      SHOAL_RETURN_IF_ERROR(Recv(c, DType::kU8, 8000, 0, tag, tag));
    }
    SHOAL_RETURN_IF_ERROR(c->Barrier());
    SHOAL_RETURN_IF_ERROR(Exchange(c, 500'000, 0, 0, 61));
    for (int tag = 0; tag < kTags; tag += 2) {
      SHOAL_RETURN_IF_ERROR(Recv(c, DType::kU8, 8000, 0, tag, tag));
    }
    return absl::OkStatus();
  }
  return c->Barrier();
}

// Messages of one tag keep their order, though some go at once, some wait to be
// asked for, and together they are more than may be on its way unasked.
SHOAL_RANK_BODY(OrderWithinATag) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  const int next = (context.rank + 1) % context.world_size;
  const int previous =
      (context.rank + context.world_size - 1) % context.world_size;
  const auto size = [](int message) {
    return message % 5 == 3 ? 100'000 : message % 7 == 0 ? 0 : 15'000;
  };
  // Even ranks send first, odd ones receive first; the last of an odd number
  // of ranks has to wait for its receiver, which waits for nobody.
  const auto send_all = [&]() -> absl::Status {
    for (int message = 0; message < 60; ++message) {
      SHOAL_RETURN_IF_ERROR(Send(communicator.get(), DType::kU8, size(message),
                                 next, 0, message));
    }
    return absl::OkStatus();
  };
  const auto receive_all = [&]() -> absl::Status {
    for (int message = 0; message < 60; ++message) {
      SHOAL_RETURN_IF_ERROR(Recv(communicator.get(), DType::kU8, size(message),
                                 previous, 0, message));
    }
    return absl::OkStatus();
  };
  if (context.rank % 2 == 1) {
    SHOAL_RETURN_IF_ERROR(receive_all());
    return send_all();
  }
  SHOAL_RETURN_IF_ERROR(send_all());
  return receive_all();
}

// Micro-batches go up and down the pipeline; each stage adds its number.
SHOAL_RANK_BODY(PipelinePasses) {
  constexpr int kMicroBatches = 6;
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  SHOAL_ASSIGN_OR_RETURN(PipelineChannel channel,
                         PipelineChannel::Create(communicator.get()));
  const int stages = channel.num_stages();
  if (channel.stage() != context.world_size - 1 - context.rank) {
    return absl::InternalError("stage 0 is the highest rank");
  }
  const auto sum_up_to = [](int stage) { return stage * (stage + 1) / 2; };
  for (const std::int64_t count : {1, 5000, 100'003}) {
    std::vector<float> values(count);
    const absl::Span<float> span = absl::MakeSpan(values);
    for (int batch = 0; batch < kMicroBatches; ++batch) {
      std::fill(values.begin(), values.end(), 1000.0f * batch);
      if (!channel.is_first_stage()) {
        SHOAL_RETURN_IF_ERROR(channel.RecvActivations(BufferOf(span), batch));
      }
      for (float& value : values) value += channel.stage();
      const float expected = 1000.0f * batch + sum_up_to(channel.stage());
      for (const float value : values) {
        if (value != expected) return absl::DataLossError("wrong activation");
      }
      if (!channel.is_last_stage()) {
        SHOAL_RETURN_IF_ERROR(channel.SendActivations(BufferOf(span), batch));
      }
    }
    for (int batch = kMicroBatches - 1; batch >= 0; --batch) {
      std::fill(values.begin(), values.end(), -1000.0f * batch);
      if (!channel.is_last_stage()) {
        SHOAL_RETURN_IF_ERROR(channel.RecvGradients(BufferOf(span), batch));
      }
      for (float& value : values) value += channel.stage();
      const float expected = -1000.0f * batch + sum_up_to(stages - 1) -
                             sum_up_to(channel.stage() - 1);
      for (const float value : values) {
        if (value != expected) return absl::DataLossError("wrong gradient");
      }
      if (!channel.is_first_stage()) {
        SHOAL_RETURN_IF_ERROR(channel.SendGradients(BufferOf(span), batch));
      }
    }
  }
  return absl::OkStatus();
}

// The receiver of a message posted with another count, and its sender, are both
// told; nobody hangs.
SHOAL_RANK_BODY(MismatchedMessage) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         context.Join());
  SHOAL_RETURN_IF_ERROR(communicator->Barrier());
  std::vector<float> values(100'000);
  const absl::Span<float> span = absl::MakeSpan(values);
  absl::Status status;
  if (context.rank == 0) {
    status = communicator->Send(BufferOf(span), 1, 5);
  } else if (context.rank == 1) {
    status = communicator->Recv(BufferOf(span.subspan(0, 99'999)), 0, 5);
  } else {
    status = communicator->Barrier();
  }
  return ExpectStatus(status, absl::StatusCode::kFailedPrecondition,
                      {"100000", "99999", "rank 0", "rank 1"});
}

class MessagesTest : public ::testing::TestWithParam<int> {};

TEST_P(MessagesTest, AllPairs) {
  EXPECT_TRUE(WorldSucceeds("AllPairs", GetParam()));
}
TEST_P(MessagesTest, Exchanges) {
  EXPECT_TRUE(WorldSucceeds("Exchanges", GetParam()));
}
TEST_P(MessagesTest, Pipeline) {
  EXPECT_TRUE(WorldSucceeds("PipelinePasses", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, MessagesTest, ::testing::Range(1, 9));

TEST(MessageOrderTest, NoTagBlocksAnother) {
  EXPECT_TRUE(WorldSucceeds("TagsOutOfOrder", 2));
  EXPECT_TRUE(WorldSucceeds("TagsOutOfOrder", 5));
}

TEST(MessageOrderTest, ATagKeepsItsOrder) {
  for (int world = 2; world <= 8; ++world) {
    EXPECT_TRUE(WorldSucceeds("OrderWithinATag", world));
  }
}

TEST(MessageMismatchTest, BothSidesAreTold) {
  EXPECT_TRUE(WorldSucceeds("MismatchedMessage", 2));
  EXPECT_TRUE(WorldSucceeds("MismatchedMessage", 4));
}

}  // namespace
}  // namespace shoal::tests
