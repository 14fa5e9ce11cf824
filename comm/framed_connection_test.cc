// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/framed_connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"
#include "shoal/comm/test_loop.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kMaxPayload = 16 * 1024 * 1024;
// More than the buffers of two sockets hold.
constexpr std::size_t kTooMuch = kMaxPayload;

class FramedConnectionTest : public testing::Test {
 protected:
  FramedConnectionTest() {
    SocketPair pair = ConnectOverLoopback();
    peer_ = std::move(pair.accepted);
    connection_ = FramedConnection::Create(loop_.get(), std::move(pair.dialled),
                                           kMaxPayload)
                      .value();
  }
  ~FramedConnectionTest() override { connection_->Close(); }

  void StartRead() {
    connection_->ReadFrame([this](absl::StatusOr<std::string> payload) {
      frames_.push_back(std::move(payload));
    });
  }

  absl::StatusOr<std::string> ReadFrame() {
    frames_.clear();
    StartRead();
    EXPECT_THAT(frames_, IsEmpty()) << "never from inside ReadFrame";
    loop_.RunUntil([this] { return !frames_.empty(); });
    if (frames_.empty()) return absl::InternalError("no frame");
    return frames_.back();
  }

  // Discards what is unread and what is unwritten at the peer.
  void ResetByPeer() {
    const linger now = {1, 0};
    setsockopt(peer_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    peer_.Close();
  }

  // What has arrived at the peer.
  void TakeAtPeer(std::string* bytes) {
    char buffer[65536];
    ssize_t got;
    while ((got = recv(peer_.get(), buffer, sizeof buffer, 0)) > 0) {
      bytes->append(buffer, static_cast<std::size_t>(got));
    }
    ASSERT_TRUE(got == 0 || errno == EAGAIN);
  }

  TestLoop loop_;
  GuardedDescriptor peer_;
  std::shared_ptr<FramedConnection> connection_;
  std::vector<absl::StatusOr<std::string>> frames_;
  int flushed_ = 0;
};

TEST_F(FramedConnectionTest, ReadsAFrameAtATimeAndNothingBeyond) {
  SendBytes(peer_.get(), EncodeFrame("one") + EncodeFrame("") + "what follows");
  EXPECT_THAT(ReadFrame(), IsOkAndHolds("one"));
  EXPECT_THAT(ReadFrame(), IsOkAndHolds(""));
  const GuardedDescriptor released = connection_->Release();
  EXPECT_EQ(connection_->descriptor(), -1);
  EXPECT_EQ(ReadBytes(released.get(), 12), "what follows");
}

TEST_F(FramedConnectionTest, AFrameMayComeByteByByte) {
  const std::string frame = EncodeFrame("payload");
  StartRead();
  for (std::size_t i = 0; i < frame.size(); ++i) {
    loop_.RunReady();
    EXPECT_THAT(frames_, IsEmpty()) << i;
    SendBytes(peer_.get(), frame.substr(i, 1));
  }
  loop_.RunUntil([this] { return !frames_.empty(); });
  EXPECT_THAT(frames_.back(), IsOkAndHolds("payload"));
}

TEST_F(FramedConnectionTest, TheHandlerMayReadOn) {
  std::vector<std::string> read;
  FramedConnection::FrameHandler handler =
      [&](absl::StatusOr<std::string> payload) {
        if (!payload.ok()) return;
        read.push_back(*std::move(payload));
        connection_->ReadFrame(handler);
      };
  connection_->ReadFrame(handler);
  SendBytes(peer_.get(), EncodeFrame("a") + EncodeFrame("b"));
  SendBytes(peer_.get(), EncodeFrame("c"));
  loop_.RunUntil([&] { return read.size() == 3; });
  EXPECT_THAT(read, testing::ElementsAre("a", "b", "c"));
  connection_->Close();  // `handler` goes
}

TEST_F(FramedConnectionTest, WhatIsNoFrameIsToldAsTheReaderTellsIt) {
  SendBytes(peer_.get(), "GET / HTTP/1.1");
  EXPECT_THAT(ReadFrame(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(FramedConnectionTest, ALongerFrameThanAllowedIsRefusedByItsHeader) {
  const std::string frame = EncodeFrame(std::string(kMaxPayload + 1, 'x'));
  SendBytes(peer_.get(), frame.substr(0, kFrameHeaderSize));
  EXPECT_THAT(ReadFrame(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(FramedConnectionTest, TheEndOfTheStreamIsUnavailable) {
  SendBytes(peer_.get(), EncodeFrame("last") + EncodeFrame("cut").substr(0, 5));
  peer_.Close();
  EXPECT_THAT(ReadFrame(), IsOkAndHolds("last"));
  EXPECT_THAT(ReadFrame(), StatusIs(absl::StatusCode::kUnavailable,
                                    "it closed the connection"));
}

TEST_F(FramedConnectionTest, AResetIsUnavailableInTheSystemsWords) {
  ResetByPeer();
  EXPECT_THAT(ReadFrame(), StatusIs(absl::StatusCode::kUnavailable,
                                    HasSubstr("Connection reset")));
}

TEST_F(FramedConnectionTest, WritesLeaveInOrderAndFlushedIsToldAfterTheLast) {
  const std::string large(kTooMuch, 'x');
  connection_->Write("first");
  connection_->Write(large);
  connection_->Write("");
  connection_->OnFlushed([this] { ++flushed_; });
  loop_.RunReady();
  EXPECT_EQ(flushed_, 0) << "the peer has read nothing";
  const std::string expected =
      EncodeFrame("first") + EncodeFrame(large) + EncodeFrame("");
  std::string got;
  loop_.RunUntil([&] {
    TakeAtPeer(&got);
    return got.size() >= expected.size();
  });
  EXPECT_TRUE(got == expected);
  loop_.RunUntil([this] { return flushed_ == 1; });
}

TEST_F(FramedConnectionTest, FlushedIsToldOfAnEmptyQueueToo) {
  connection_->OnFlushed([this] { ++flushed_; });
  EXPECT_EQ(flushed_, 0) << "never from inside OnFlushed";
  loop_.RunToEnd();
  EXPECT_EQ(flushed_, 1);
}

TEST_F(FramedConnectionTest, WhatCannotBeWrittenIsDroppedAndCountsAsFlushed) {
  connection_->Write(std::string(kTooMuch, 'x'));
  connection_->Write("behind it");
  connection_->OnFlushed([this] { ++flushed_; });
  loop_.RunReady();
  EXPECT_EQ(flushed_, 0);
  ResetByPeer();
  loop_.RunUntil([this] { return flushed_ == 1; });
  EXPECT_THAT(ReadFrame(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(FramedConnectionTest, AfterCancelReadBytesStayInTheSocket) {
  StartRead();
  loop_.RunReady();
  connection_->CancelRead();
  SendBytes(peer_.get(), EncodeFrame("for the next owner"));
  loop_.RunToEnd();
  EXPECT_THAT(frames_, IsEmpty());
  const GuardedDescriptor released = connection_->Release();
  const std::string frame = EncodeFrame("for the next owner");
  EXPECT_EQ(ReadBytes(released.get(), frame.size()), frame);
}

TEST_F(FramedConnectionTest, NoHandlerIsCalledAfterClose) {
  const int before = CountGuardedDescriptors();
  StartRead();
  connection_->Write(std::string(kTooMuch, 'x'));
  connection_->OnFlushed([this] { ++flushed_; });
  loop_.RunReady();
  SendBytes(peer_.get(), EncodeFrame("it has arrived"));
  connection_->Close();
  EXPECT_EQ(connection_->descriptor(), -1);
  EXPECT_EQ(CountGuardedDescriptors(), before - 1);
  connection_->Write("too late");
  loop_.RunToEnd();
  EXPECT_THAT(frames_, IsEmpty());
  EXPECT_EQ(flushed_, 0);
}

TEST_F(FramedConnectionTest, ShutsDownAfterTheLastFrameAndReadsOn) {
  const std::string large(kTooMuch, 'x');
  connection_->Write(large);
  connection_->ShutdownWhenFlushed();
  const std::string expected = EncodeFrame(large);
  std::string got;
  loop_.RunUntil([&] {
    TakeAtPeer(&got);
    return got.size() >= expected.size();
  });
  EXPECT_TRUE(got == expected);
  loop_.RunUntil([this] { return IsReadable(peer_.get()); });
  EXPECT_EQ(ReadBytes(peer_.get(), 1), "") << "the end";
  SendBytes(peer_.get(), EncodeFrame("heard"));
  EXPECT_THAT(ReadFrame(), IsOkAndHolds("heard"));
}

TEST_F(FramedConnectionTest, KeepsThePeersName) {
  SHOAL_ASSERT_OK_AND_ASSIGN(const SocketAddress peer,
                             LocalAddress(peer_.get()));
  EXPECT_EQ(connection_->peer_name(), peer.ToString());
  connection_->Close();
  EXPECT_EQ(connection_->peer_name(), peer.ToString());
}

TEST_F(FramedConnectionTest, ASocketThatIsNotConnectedIsRefused) {
  const int before = CountGuardedDescriptors();
  EXPECT_FALSE(FramedConnection::Create(
                   loop_.get(), OpenSocket(AF_INET).value(), kMaxPayload)
                   .ok());
  EXPECT_EQ(CountGuardedDescriptors(), before);
}

}  // namespace
}  // namespace shoal::internal
