// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/mesh.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/base/status_matchers.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/framed_connection.h"
#include "shoal/comm/hello_acceptor.h"
#include "shoal/comm/loopback_sockets.h"
#include "shoal/comm/stranger.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"
#include "shoal/comm/test_loop.h"

namespace shoal::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kSession = 4711;
constexpr auto kControl = comm::LinkHello::CONTROL;
constexpr auto kCollective = comm::LinkHello::COLLECTIVE;

MeshOptions OptionsOf(int rank, int world_size,
                      const std::vector<SocketAddress>& addresses) {
  MeshOptions options;
  options.self = {"test", kSession, rank, world_size};
  for (const SocketAddress& address : addresses) {
    options.addresses.push_back({address});
  }
  return options;
}

// The meshes of all ranks on one loop, each with its listener.
class Meshes {
 public:
  explicit Meshes(int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
      listeners_.push_back(ListenOnLoopback());
      addresses_.push_back(*LocalAddress(listeners_[rank].get()));
    }
    acceptors_.resize(world_size);
    meshes_.resize(world_size);
  }
  ~Meshes() {
    for (const auto& acceptor : acceptors_) {
      if (acceptor != nullptr) acceptor->Stop();
    }
    for (const auto& mesh : meshes_) {
      if (mesh != nullptr) mesh->Stop();
    }
  }

  void Start(int rank) {
    meshes_[rank] = Mesh::Start(
        loop_.get(),
        OptionsOf(rank, static_cast<int>(meshes_.size()), addresses_),
        [this] { ++completed_; });
    HelloAcceptorOptions options;
    options.log = [this](absl::string_view line) { log_.emplace_back(line); };
    acceptors_[rank] =
        HelloAcceptor::Start(
            loop_.get(), std::move(listeners_[rank]), options,
            [this, rank](comm::BootstrapMessage message,
                         std::shared_ptr<FramedConnection> connection) {
              SHOAL_EXPECT_OK(
                  meshes_[rank]->Take(message.link_hello(), connection));
            })
            .value();
  }

  void Run() {
    loop_.RunUntil([this] { return completed_ == size(); });
    for (const auto& mesh : meshes_) {
      EXPECT_TRUE(mesh->complete());
      EXPECT_EQ(mesh->Missing(), "");
    }
    EXPECT_THAT(log_, IsEmpty());
  }

  int size() const { return static_cast<int>(meshes_.size()); }
  Mesh& mesh(int rank) { return *meshes_[rank]; }

 private:
  TestLoop loop_;
  std::vector<GuardedDescriptor> listeners_;
  std::vector<SocketAddress> addresses_;
  std::vector<std::shared_ptr<HelloAcceptor>> acceptors_;
  std::vector<std::shared_ptr<Mesh>> meshes_;
  std::vector<std::string> log_;
  int completed_ = 0;
};

// Each pair has a collective link, and a control link without rank 0; each link
// leads to where it should, and nothing is on it.
void ExpectLinks(Meshes* meshes, comm::LinkHello::Purpose purpose) {
  std::vector<std::vector<GuardedDescriptor>> links;
  for (int rank = 0; rank < meshes->size(); ++rank) {
    links.push_back(meshes->mesh(rank).TakeLinks(purpose));
    ASSERT_EQ(static_cast<int>(links[rank].size()), meshes->size());
  }
  for (int rank = 0; rank < meshes->size(); ++rank) {
    EXPECT_FALSE(links[rank][rank].valid());
    for (int peer = 0; peer < rank; ++peer) {
      SCOPED_TRACE(absl::StrCat(rank, " to ", peer));
      const bool expected = purpose == kCollective || peer > 0;
      ASSERT_EQ(links[rank][peer].valid(), expected);
      ASSERT_EQ(links[peer][rank].valid(), expected);
      if (!expected) continue;
      const std::string text = absl::StrCat(rank, ">", peer, ".");
      SendBytes(links[rank][peer].get(), text);
      EXPECT_EQ(ReadBytes(links[peer][rank].get(), text.size()), text);
    }
  }
}

TEST(MeshTest, LinksEveryPairInEveryOrderOfStarting) {
  for (int world_size = 2; world_size <= 6; ++world_size) {
    for (const bool backward : {false, true}) {
      Meshes meshes(world_size);
      for (int i = 0; i < world_size; ++i) {
        meshes.Start(backward ? world_size - 1 - i : i);
      }
      meshes.Run();
      ExpectLinks(&meshes, kControl);
      ExpectLinks(&meshes, kCollective);
    }
  }
}

// One mesh, with the test as its peers.
class OneMeshTest : public testing::Test {
 protected:
  ~OneMeshTest() override {
    if (mesh_ != nullptr) mesh_->Stop();
  }

  void Start(int rank, int world_size,
             const std::vector<SocketAddress>& addresses) {
    mesh_ = Mesh::Start(loop_.get(), OptionsOf(rank, world_size, addresses),
                        [this] { ++completed_; });
  }

  // What a peer's connection to the listener of this rank becomes.
  std::shared_ptr<FramedConnection> Accepted(GuardedDescriptor socket) {
    return FramedConnection::Create(loop_.get(), std::move(socket),
                                    kMaxStrangerPayload)
        .value();
  }

  TestLoop loop_;
  int completed_ = 0;
  std::shared_ptr<Mesh> mesh_;
};

comm::LinkHello LinkFrom(int from, int to, comm::LinkHello::Purpose purpose) {
  return GoodLinkHello(kSession, from, to, purpose).link_hello();
}

TEST_F(OneMeshTest, MissingNamesEachLinkAndWhy) {
  const ReservedPort refusing;
  const GuardedDescriptor silent = ListenOnLoopback();
  Start(2, 4, {refusing.address(), *LocalAddress(silent.get())});
  loop_.RunUntil(
      [this] { return mesh_->Missing().find("refused") != std::string::npos; });
  EXPECT_FALSE(mesh_->complete());
  EXPECT_EQ(mesh_->Missing(),
            absl::StrCat("no link to rank 0 (cannot connect to ",
                         refusing.address().ToString(),
                         ": Connection refused); no link to rank 1 (no "
                         "answer); no link to rank 1 (no answer); no link from "
                         "rank 3; no link from rank 3"));
}

// Whatever the peer's answer is, unless it is that the link was taken.
TEST_F(OneMeshTest, DialsAgainUntilThePeerTakesTheLink) {
  const GuardedDescriptor listener = ListenOnLoopback();
  const SocketAddress address = *LocalAddress(listener.get());
  Start(1, 2, {address});
  const auto answer = [&](absl::string_view bytes, const char* why) {
    loop_.RunUntil([&] { return IsReadable(listener.get()); });
    Stranger zero(AcceptFrom(listener.get()).value());
    loop_.RunUntil([&] { return IsReadable(zero.descriptor()); });
    SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage message,
                               zero.Receive());
    const comm::LinkHello& hello = message.link_hello();
    EXPECT_EQ(hello.protocol_version(), kProtocolVersion);
    EXPECT_EQ(hello.job_id(), "test");
    EXPECT_EQ(hello.session(), kSession);
    EXPECT_EQ(hello.from(), 1u);
    EXPECT_EQ(hello.to(), 0u);
    EXPECT_EQ(hello.purpose(), kCollective);
    zero.Send(bytes);
    zero.Close();
    const std::string expected =
        absl::StrCat("no link to rank 0 (at ", address.ToString(), ": ", why);
    loop_.RunUntil(
        [&] { return mesh_->Missing().find(expected) != std::string::npos; });
  };
  answer("", "it closed the connection");
  answer(EncodeFrame(EncodeFailure(absl::UnavailableError("come later"))),
         "come later");
  comm::BootstrapMessage other;
  other.mutable_go();
  answer(Framed(other), "it answered with another message");
  answer("220 mail.example", "its first bytes");
  EXPECT_EQ(completed_, 0);

  loop_.RunUntil([&] { return IsReadable(listener.get()); });
  Stranger zero(AcceptFrom(listener.get()).value());
  comm::BootstrapMessage accepted;
  accepted.mutable_link_accepted();
  zero.Send(Framed(accepted) + "payload");
  loop_.RunUntil([this] { return completed_ == 1; });
  const std::vector<GuardedDescriptor> links = mesh_->TakeLinks(kCollective);
  EXPECT_EQ(ReadBytes(links[0].get(), 7), "payload");
}

TEST_F(OneMeshTest, TakesOnlyTheLinksThatHigherRanksDial) {
  const ReservedPort refusing;
  Start(1, 3, {refusing.address()});
  SocketPair pair = ConnectOverLoopback();
  const auto connection = Accepted(std::move(pair.accepted));
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("should not ask for"));
  EXPECT_THAT(mesh_->Take(LinkFrom(0, 1, kCollective), connection), refused);
  EXPECT_THAT(
      mesh_->Take(LinkFrom(2, 1, comm::LinkHello::POINT_TO_POINT), connection),
      refused);
  EXPECT_THAT(mesh_->Take(LinkFrom(2, 0, kCollective), connection),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_GE(connection->descriptor(), 0) << "still the caller's";
  SHOAL_EXPECT_OK(mesh_->Take(LinkFrom(2, 1, kControl), connection));
  loop_.RunUntil([&] { return connection->descriptor() < 0; });
  EXPECT_THAT(mesh_->Take(LinkFrom(2, 1, kControl),
                          Accepted(ConnectOverLoopback().accepted)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("there already")));
}

// A peer that has dialled twice reads the answer on its second connection.
TEST_F(OneMeshTest, TheLaterOfTwoConnectionsBecomesTheLink) {
  Start(0, 2, {});
  SocketPair first = ConnectOverLoopback();
  SocketPair second = ConnectOverLoopback();
  SHOAL_ASSERT_OK(mesh_->Take(LinkFrom(1, 0, kCollective),
                              Accepted(std::move(first.accepted))));
  SHOAL_ASSERT_OK(mesh_->Take(LinkFrom(1, 0, kCollective),
                              Accepted(std::move(second.accepted))));
  loop_.RunUntil([this] { return completed_ == 1; });
  Stranger one(std::move(second.dialled));
  SHOAL_ASSERT_OK_AND_ASSIGN(const comm::BootstrapMessage answer,
                             one.Receive());
  EXPECT_TRUE(answer.has_link_accepted());
  one.Send("payload");
  const std::vector<GuardedDescriptor> links = mesh_->TakeLinks(kCollective);
  EXPECT_EQ(ReadBytes(links[1].get(), 7), "payload");
  Stranger(std::move(first.dialled)).AwaitEnd();
  EXPECT_EQ(completed_, 1);
}

TEST_F(OneMeshTest, NothingHappensAfterStop) {
  const GuardedDescriptor listener = ListenOnLoopback();
  const ReservedPort refusing;
  const int before = CountGuardedDescriptors();
  Start(2, 4, {*LocalAddress(listener.get()), refusing.address()});
  SocketPair pair = ConnectOverLoopback();
  SHOAL_ASSERT_OK(mesh_->Take(LinkFrom(3, 2, kCollective),
                              Accepted(std::move(pair.accepted))));
  mesh_->Stop();
  loop_.RunToEnd();
  EXPECT_EQ(completed_, 0);
  EXPECT_EQ(CountGuardedDescriptors(), before + 1) << "pair.dialled is left";
}

}  // namespace
}  // namespace shoal::internal
