// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/bootstrap_host.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/framed_connection.h"
#include "shoal/comm/hello_acceptor.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/loop_timer.h"
#include "shoal/comm/mesh.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_listener.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// For the others to read why the attempt failed, and to close.
constexpr absl::Duration kLingerTimeout = absl::Seconds(1);

// "rank 3", "ranks 2 and 5", "ranks 2, 5 and 7".
std::string RankList(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks[0]);
  const std::vector<int> front(ranks.begin(), ranks.end() - 1);
  return absl::StrCat("ranks ", absl::StrJoin(front, ", "), " and ",
                      ranks.back());
}

std::uint64_t RandomSession() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

class Host {
 public:
  Host(BootstrapOptions options, GuardedDescriptor listener,
       std::string address);
  ~Host();

  absl::StatusOr<JoinedWorld> Run();

 private:
  enum class State {
    kGathering,  // hellos are missing
    kLinking,    // everyone has the table; links, or someone's Ready, missing
    kGoing,      // Go is on its way
    kLingering,  // a Failure is on its way
    kDone,
  };
  struct Member {
    std::shared_ptr<FramedConnection> connection;  // null: has not joined
    PeerInfo info;
    bool ready = false;
  };

  void Enter(State state);
  void OnFirstMessage(const comm::BootstrapMessage& message,
                      std::shared_ptr<FramedConnection> connection);
  absl::Status Admit(const comm::Hello& hello,
                     std::shared_ptr<FramedConnection> connection);
  absl::Status CheckReachable() const;
  // Whether all ranks share this machine, and its cores.
  bool IsCrowded() const;
  void WelcomeAll();
  void Watch(int rank);
  void OnFrame(int rank, absl::StatusOr<std::string> payload);
  void OnMessage(int rank, const comm::BootstrapMessage& message);
  void OnEnd(int rank, const absl::Status& reason);
  void OnTimeout();
  void MaybeGo();
  void Fail(absl::Status status);
  void FinishWhenAllClosed();
  // What is still missing, for people.
  std::string Missing() const;
  // Who was refused last, and why; empty: nobody.
  std::string TurnedAway() const;
  JoinedWorld TakeWorld();

  const BootstrapOptions options_;
  AgreedOptions agreed_ = options_.options;
  const std::string address_;
  asio::io_context loop_{1};
  asio::steady_timer join_timer_{loop_};
  asio::steady_timer linger_timer_{loop_};
  GuardedDescriptor listener_;
  std::shared_ptr<HelloAcceptor> acceptor_;
  std::shared_ptr<Mesh> mesh_;
  State state_ = State::kGathering;
  const std::uint64_t session_ = RandomSession();
  std::vector<Member> members_;  // by rank; 0 is this one
  int unflushed_ = 0;            // members that have not got their Go
  std::string last_refusal_;
  absl::Status failure_;
};

Host::Host(BootstrapOptions options, GuardedDescriptor listener,
           std::string address)
    : options_(std::move(options)),
      address_(std::move(address)),
      listener_(std::move(listener)),
      members_(options_.world_size) {
  members_[0].info = {
      {address_}, options_.host_id, static_cast<std::uint32_t>(getpid())};
}

Host::~Host() {
  if (acceptor_ != nullptr) acceptor_->Stop();
  if (mesh_ != nullptr) mesh_->Stop();
  for (Member& member : members_) {
    if (member.connection != nullptr) member.connection->Close();
  }
}

absl::StatusOr<JoinedWorld> Host::Run() {
  HelloAcceptorOptions acceptor_options;
  acceptor_options.hello_timeout = options_.hello_timeout;
  acceptor_options.log = [this](absl::string_view line) {
    options_.log(absl::StrCat("rank 0 at ", address_, " ", line));
  };
  SHOAL_ASSIGN_OR_RETURN(
      acceptor_, HelloAcceptor::Start(
                     &loop_, std::move(listener_), std::move(acceptor_options),
                     [this](comm::BootstrapMessage message,
                            std::shared_ptr<FramedConnection> connection) {
                       OnFirstMessage(message, std::move(connection));
                     }));
  Enter(State::kGathering);
  join_timer_.expires_after(TimerDuration(options_.timeouts.join));
  join_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) OnTimeout();
  });
  while (state_ != State::kDone) {
    if (loop_.run_one() == 0) {
      return absl::InternalError("the loop of rank 0 ran out of work");
    }
  }
  if (!failure_.ok()) return failure_;
  return TakeWorld();
}

void Host::Enter(State state) {
  static constexpr absl::string_view kNames[] = {"gathering", "linking",
                                                 "going", "lingering", "done"};
  state_ = state;
  if (options_.on_state) options_.on_state(kNames[static_cast<int>(state)]);
}

void Host::OnFirstMessage(const comm::BootstrapMessage& message,
                          std::shared_ptr<FramedConnection> connection) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat(connection->peer_name(), " did not begin with a hello"));
  if (message.has_hello()) {
    status = Admit(message.hello(), connection);
    if (!status.ok()) last_refusal_ = std::string(status.message());
  } else if (message.has_link_hello() && mesh_ != nullptr) {
    status = mesh_->Take(message.link_hello(), connection);
  }
  if (!status.ok()) acceptor_->Refuse(std::move(connection), status);
}

absl::Status Host::Admit(const comm::Hello& hello,
                         std::shared_ptr<FramedConnection> connection) {
  const std::string& sender = connection->peer_name();
  SHOAL_RETURN_IF_ERROR(
      CheckHello(hello, options_.job_id, options_.world_size, sender));
  const int rank = static_cast<int>(hello.rank());
  Member& member = members_[rank];
  if (member.connection != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        sender, " says that it is rank ", rank,
        ", which has joined already as ", RankName(rank, member.info),
        "; give every rank a number of its own"));
  }
  if (state_ != State::kGathering) return failure_;
  member.connection = std::move(connection);
  member.info = {{hello.addresses().begin(), hello.addresses().end()},
                 hello.host_id(),
                 hello.pid()};
  comm::BootstrapMessage accepted;
  accepted.mutable_hello_accepted();
  member.connection->Write(EncodeBootstrap(accepted));
  Watch(rank);
  const bool all_here =
      std::all_of(members_.begin() + 1, members_.end(),
                  [](const Member& one) { return one.connection != nullptr; });
  if (all_here) WelcomeAll();
  return absl::OkStatus();
}

// A rank that reached rank 0 by a loopback address publishes that, and it leads
// others nowhere.
absl::Status Host::CheckReachable() const {
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    const PeerInfo& info = members_[rank].info;
    const absl::StatusOr<SocketAddress> local =
        PeerAddress(members_[rank].connection->descriptor());
    if (!local.ok() || !local->is_loopback()) continue;
    for (std::size_t other = 0; other < members_.size(); ++other) {
      const PeerInfo& far = members_[other].info;
      if (other == rank || far.host_id == info.host_id) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          RankName(static_cast<int>(rank), info),
          " joined through a loopback address, by which ",
          RankName(static_cast<int>(other), far),
          " on another host cannot reach it; give all ranks an address of "
          "rank 0 that every host can reach"));
    }
  }
  return absl::OkStatus();
}

bool Host::IsCrowded() const {
  return options_.world_size > options_.usable_cores &&
         std::all_of(members_.begin(), members_.end(),
                     [this](const Member& member) {
                       return member.info.host_id == members_[0].info.host_id;
                     });
}

void Host::WelcomeAll() {
  if (absl::Status status = CheckReachable(); !status.ok()) {
    return Fail(std::move(status));
  }
  SettleRules(IsCrowded(), &agreed_.policy);
  comm::BootstrapMessage message;
  comm::Welcome* const welcome = message.mutable_welcome();
  welcome->set_session(session_);
  welcome->mutable_options()->set_slice_bytes(
      static_cast<std::uint32_t>(agreed_.slice_bytes));
  for (const AlgorithmRule& rule : agreed_.policy.rules) {
    comm::AlgorithmRule* const sent =
        welcome->mutable_options()->add_algorithm_rules();
    sent->set_kind(static_cast<std::uint32_t>(rule.kind));
    sent->set_max_world_size(static_cast<std::uint32_t>(rule.max_world_size));
    sent->set_max_bytes(rule.max_bytes);
    sent->set_algorithm(static_cast<std::uint32_t>(rule.algorithm));
  }
  for (const Member& member : members_) {
    comm::Peer* const peer = welcome->add_peers();
    for (const std::string& address : member.info.addresses) {
      peer->add_addresses(address);
    }
    peer->set_host_id(member.info.host_id);
    peer->set_pid(member.info.pid);
  }
  const std::string payload = EncodeBootstrap(message);
  Enter(State::kLinking);
  MeshOptions mesh_options;
  mesh_options.self = {options_.job_id, session_, 0, options_.world_size};
  mesh_ = Mesh::Start(&loop_, std::move(mesh_options), [this] { MaybeGo(); });
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    members_[rank].connection->Write(payload);
  }
}

void Host::Watch(int rank) {
  members_[rank].connection->ReadFrame(
      [this, rank](absl::StatusOr<std::string> payload) {
        OnFrame(rank, std::move(payload));
      });
}

void Host::OnFrame(int rank, absl::StatusOr<std::string> payload) {
  if (!payload.ok()) return OnEnd(rank, payload.status());
  const absl::StatusOr<comm::BootstrapMessage> message =
      DecodeBootstrap(*payload);
  if (!message.ok()) return OnEnd(rank, message.status());
  Watch(rank);
  OnMessage(rank, *message);
}

void Host::OnMessage(int rank, const comm::BootstrapMessage& message) {
  // What crosses a Failure on its way changes nothing any more.
  if (state_ == State::kLingering) return;
  const std::string name = RankName(rank, members_[rank].info);
  if (message.has_failure()) {
    const absl::Status told = FailureStatus(message.failure());
    if (state_ == State::kGathering && absl::IsDeadlineExceeded(told)) {
      return Fail(absl::DeadlineExceededError(
          absl::StrCat(Missing(), " when the join time-out of ", name,
                       " passed", TurnedAway())));
    }
    return Fail(told);
  }
  if (message.has_ready() && state_ == State::kLinking &&
      !members_[rank].ready) {
    members_[rank].ready = true;
    return MaybeGo();
  }
  Fail(absl::DataLossError(
      absl::StrCat(name, " sent a message out of turn while joining")));
}

void Host::OnEnd(int rank, const absl::Status& reason) {
  members_[rank].connection->Close();
  if (state_ == State::kLingering) return FinishWhenAllClosed();
  const std::string name = RankName(rank, members_[rank].info);
  Fail(absl::IsUnavailable(reason)
           ? absl::UnavailableError(absl::StrCat(
                 name, " died while the world was forming: ", reason.message()))
           : absl::Status(reason.code(),
                          absl::StrCat(name, ": ", reason.message())));
}

void Host::OnTimeout() {
  std::string message =
      absl::StrCat(Missing(), " within the join time-out of ",
                   absl::FormatDuration(options_.timeouts.join),
                   "; rank 0 listens on ", address_, TurnedAway());
  if (state_ == State::kGathering) {
    absl::StrAppend(&message,
                    "; start the missing ranks, or raise the time-out");
  }
  Fail(absl::DeadlineExceededError(message));
}

std::string Host::TurnedAway() const {
  if (last_refusal_.empty()) return "";
  return absl::StrCat("; turned away: ", last_refusal_);
}

std::string Host::Missing() const {
  std::vector<int> absent;
  std::vector<int> unready;
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    if (members_[rank].connection == nullptr) absent.push_back(rank);
    if (!members_[rank].ready) unready.push_back(rank);
  }
  if (!absent.empty()) {
    return absl::StrCat(RankList(absent), " of ", options_.world_size,
                        " had not joined");
  }
  if (!unready.empty()) {
    return absl::StrCat(RankList(unready), " of ", options_.world_size,
                        " had not connected to all others");
  }
  return absl::StrCat("rank 0 had ", mesh_->Missing());
}

void Host::MaybeGo() {
  if (state_ != State::kLinking || !mesh_->complete()) return;
  const bool all_ready =
      std::all_of(members_.begin() + 1, members_.end(),
                  [](const Member& member) { return member.ready; });
  if (!all_ready) return;
  Enter(State::kGoing);
  join_timer_.cancel();
  comm::BootstrapMessage go;
  go.mutable_go();
  const std::string payload = EncodeBootstrap(go);
  unflushed_ = options_.world_size - 1;
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    FramedConnection& connection = *members_[rank].connection;
    // What follows Ready is for whoever has the connection after this.
    connection.CancelRead();
    connection.Write(payload);
    connection.OnFlushed([this] {
      if (--unflushed_ == 0) Enter(State::kDone);
    });
  }
}

void Host::Fail(absl::Status status) {
  if (state_ == State::kLingering || state_ == State::kDone) return;
  Enter(State::kLingering);
  failure_ = std::move(status);
  join_timer_.cancel();
  if (mesh_ != nullptr) mesh_->Stop();
  const std::string payload = EncodeFailure(failure_);
  for (Member& member : members_) {
    if (member.connection == nullptr) continue;
    member.connection->Write(payload);
    member.connection->ShutdownWhenFlushed();
  }
  linger_timer_.expires_after(TimerDuration(kLingerTimeout));
  linger_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) Enter(State::kDone);
  });
  FinishWhenAllClosed();
}

void Host::FinishWhenAllClosed() {
  const bool all_closed =
      std::all_of(members_.begin(), members_.end(), [](const Member& member) {
        return member.connection == nullptr ||
               member.connection->descriptor() < 0;
      });
  if (all_closed) Enter(State::kDone);
}

JoinedWorld Host::TakeWorld() {
  JoinedWorld world;
  world.session = session_;
  world.options = agreed_;
  world.listener = acceptor_->Stop();
  world.collective = mesh_->TakeLinks(comm::LinkHello::COLLECTIVE);
  world.control.resize(options_.world_size);
  for (int rank = 0; rank < options_.world_size; ++rank) {
    world.peers.push_back(std::move(members_[rank].info));
    if (rank != 0) world.control[rank] = members_[rank].connection->Release();
  }
  return world;
}

}  // namespace

absl::StatusOr<JoinedWorld> BootstrapAsHost(BootstrapOptions options) {
  if (!options.listener.has_value()) {
    SHOAL_ASSIGN_OR_RETURN(options.listener,
                           TcpListener::Bind(options.address));
  }
  std::string address =
      options.address.empty() ? options.listener->address() : options.address;
  GuardedDescriptor listener = GuardedDescriptor::Adopt(
      std::move(*options.listener).ReleaseDescriptor());
  options.listener.reset();
  if (!listener.valid()) {
    return absl::InvalidArgumentError(
        "rank 0 was given a listener that has been moved from");
  }
  return Host(std::move(options), std::move(listener), std::move(address))
      .Run();
}

}  // namespace shoal::internal
