// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/bootstrap_member.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dialer.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/framed_connection.h"
#include "shoal/comm/hello_acceptor.h"
#include "shoal/comm/joined_world.h"
#include "shoal/comm/loop_timer.h"
#include "shoal/comm/mesh.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// A value that this release does not know becomes one that no rule may have.
template <typename Enum>
Enum ToEnum(std::uint32_t value) {
  return static_cast<Enum>(value <= 0xFF ? value : 0xFF);
}

absl::StatusOr<AlgorithmPolicy> PolicyOf(const comm::AgreedOptions& options) {
  AlgorithmPolicy policy;
  policy.rules.clear();
  for (const comm::AlgorithmRule& sent : options.algorithm_rules()) {
    AlgorithmRule rule;
    rule.kind = ToEnum<CallKind>(sent.kind());
    rule.max_world_size = static_cast<std::int32_t>(sent.max_world_size());
    rule.max_bytes = sent.max_bytes();
    rule.algorithm = ToEnum<Algorithm>(sent.algorithm());
    policy.rules.push_back(rule);
  }
  if (const absl::Status status = CheckPolicy(policy); !status.ok()) {
    return absl::DataLossError(absl::StrCat("from rank 0: ", status.message()));
  }
  return policy;
}

class Member {
 public:
  explicit Member(BootstrapOptions options);
  ~Member();

  absl::StatusOr<JoinedWorld> Run(HostPort host);

 private:
  enum class State {
    kDialing,    // no connection to rank 0
    kGreeting,   // the hello is on its way
    kWaiting,    // accepted; others are missing
    kLinking,    // the table is here; links are missing
    kReady,      // rank 0 has been told; others may be missing
    kLingering,  // gave up; rank 0 may know a better reason
    kDone,
  };

  void Enter(State state);
  absl::StatusOr<std::vector<SocketAddress>> ResolveHost(const HostPort& host);
  void OnConnected(GuardedDescriptor socket);
  absl::Status Greet();
  void Watch();
  void OnFrame(absl::StatusOr<std::string> payload);
  void OnEnd(const absl::Status& reason);
  void OnMessage(const comm::BootstrapMessage& message);
  absl::Status BeginLinking(const comm::Welcome& welcome);
  absl::StatusOr<std::vector<SocketAddress>> AddressesOf(int rank) const;
  void OnLinked();
  void OnTimeout();
  // Ends with what this rank found out; asks rank 0 first whether it knows
  // more.
  void GiveUp(absl::Status status);
  void Finish(absl::Status status);
  JoinedWorld TakeWorld();

  const BootstrapOptions options_;
  asio::io_context loop_{1};
  asio::steady_timer join_timer_{loop_};
  asio::steady_timer linger_timer_{loop_};
  std::shared_ptr<Dialer> dialer_;
  std::shared_ptr<FramedConnection> host_;
  GuardedDescriptor listener_;
  std::string own_address_;
  std::shared_ptr<HelloAcceptor> acceptor_;
  std::shared_ptr<Mesh> mesh_;
  State state_ = State::kDialing;
  bool tried_ = false;
  absl::Status failure_;
  JoinedWorld world_;
};

Member::Member(BootstrapOptions options) : options_(std::move(options)) {}

Member::~Member() {
  if (dialer_ != nullptr) dialer_->Stop();
  if (acceptor_ != nullptr) acceptor_->Stop();
  if (mesh_ != nullptr) mesh_->Stop();
  if (host_ != nullptr) host_->Close();
}

absl::StatusOr<JoinedWorld> Member::Run(HostPort host) {
  Enter(State::kDialing);
  join_timer_.expires_after(TimerDuration(options_.timeouts.join));
  join_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) OnTimeout();
  });
  dialer_ = Dialer::Start(
      &loop_, [this, host = std::move(host)] { return ResolveHost(host); },
      [this](GuardedDescriptor socket) { OnConnected(std::move(socket)); });
  while (state_ != State::kDone) {
    if (loop_.run_one() == 0) {
      return absl::InternalError(
          absl::StrCat("the loop of rank ", options_.rank, " ran out of work"));
    }
  }
  if (!failure_.ok()) return failure_;
  return TakeWorld();
}

void Member::Enter(State state) {
  static constexpr absl::string_view kNames[] = {
      "dialing", "greeting",  "waiting", "linking",
      "ready",   "lingering", "done"};
  state_ = state;
  if (options_.on_state) options_.on_state(kNames[static_cast<int>(state)]);
}

// Asked at the beginning of each round of tries.
absl::StatusOr<std::vector<SocketAddress>> Member::ResolveHost(
    const HostPort& host) {
  if (std::exchange(tried_, true) && options_.on_state) {
    options_.on_state("retrying");
  }
  return Resolve(host);
}

void Member::OnConnected(GuardedDescriptor socket) {
  absl::StatusOr<std::shared_ptr<FramedConnection>> connection =
      FramedConnection::Create(&loop_, std::move(socket), kMaxTrustedPayload);
  if (!connection.ok()) return dialer_->Retry(connection.status());
  host_ = *std::move(connection);
  Enter(State::kGreeting);
  if (absl::Status status = Greet(); !status.ok()) {
    return Finish(std::move(status));
  }
  Watch();
}

// Listens where rank 0 can be reached from, or where the user wants, and says
// so.
absl::Status Member::Greet() {
  std::vector<SocketAddress> candidates;
  if (options_.advertise_host.empty()) {
    SHOAL_ASSIGN_OR_RETURN(SocketAddress local,
                           LocalAddress(host_->descriptor()));
    local.set_port(0);
    candidates.push_back(local);
  } else {
    SHOAL_ASSIGN_OR_RETURN(candidates,
                           Resolve(HostPort{options_.advertise_host, 0}));
    // A host behind a translator of addresses does not own the one by which
    // it is reached.
    SHOAL_ASSIGN_OR_RETURN(
        const std::vector<SocketAddress> any,
        Resolve(
            HostPort{candidates[0].family() == AF_INET ? "0.0.0.0" : "::", 0}));
    candidates.push_back(any[0]);
  }
  absl::StatusOr<GuardedDescriptor> listener = absl::InternalError("");
  for (const SocketAddress& candidate : candidates) {
    listener = ListenOn(candidate);
    if (listener.ok()) break;
  }
  if (!listener.ok()) return listener.status();
  SHOAL_ASSIGN_OR_RETURN(const SocketAddress bound,
                         LocalAddress(listener->get()));
  own_address_ =
      options_.advertise_host.empty()
          ? bound.ToString()
          : HostPort{options_.advertise_host, bound.port()}.ToString();
  listener_ = *std::move(listener);

  comm::BootstrapMessage message;
  comm::Hello* const hello = message.mutable_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_job_id(options_.job_id);
  hello->set_rank(options_.rank);
  hello->set_world_size(options_.world_size);
  hello->add_addresses(own_address_);
  hello->set_host_id(options_.host_id);
  hello->set_pid(getpid());
  host_->Write(EncodeBootstrap(message));
  return absl::OkStatus();
}

void Member::Watch() {
  host_->ReadFrame([this](absl::StatusOr<std::string> payload) {
    OnFrame(std::move(payload));
  });
}

void Member::OnFrame(absl::StatusOr<std::string> payload) {
  if (!payload.ok()) return OnEnd(payload.status());
  const absl::StatusOr<comm::BootstrapMessage> message =
      DecodeBootstrap(*payload);
  if (!message.ok()) return OnEnd(message.status());
  OnMessage(*message);
}

void Member::OnEnd(const absl::Status& reason) {
  const std::string name = absl::StrCat("rank 0 (", options_.address, ")");
  if (state_ == State::kLingering) return Finish(failure_);
  if (absl::IsFailedPrecondition(reason)) {
    return Finish(absl::FailedPreconditionError(
        absl::StrCat(name, ": ", reason.message())));
  }
  if (state_ == State::kGreeting) {
    // Perhaps another program still has the address, or rank 0 is on its way
    // up or down. Nothing binds this rank to it yet.
    host_->Close();
    Enter(State::kDialing);
    return dialer_->Retry(absl::UnavailableError(
        absl::StrCat("what answers at ", host_->peer_name(),
                     " does not let this rank in: ", reason.message())));
  }
  Finish(
      absl::IsUnavailable(reason)
          ? absl::UnavailableError(absl::StrCat(
                name, " died while the world was forming: ", reason.message()))
          : absl::Status(reason.code(),
                         absl::StrCat(name, ": ", reason.message())));
}

void Member::OnMessage(const comm::BootstrapMessage& message) {
  if (message.has_failure()) return Finish(FailureStatus(message.failure()));
  if (state_ == State::kLingering) return Watch();
  if (message.has_go() && state_ == State::kReady) {
    return Finish(absl::OkStatus());
  }
  Watch();
  if (message.has_hello_accepted() && state_ == State::kGreeting) {
    dialer_->Stop();
    Enter(State::kWaiting);
  } else if (message.has_welcome() && state_ == State::kWaiting) {
    absl::Status status = BeginLinking(message.welcome());
    if (!status.ok()) GiveUp(std::move(status));
  } else {
    GiveUp(absl::DataLossError(absl::StrCat("rank 0 (", options_.address,
                                            ") sent a message out of turn")));
  }
}

absl::Status Member::BeginLinking(const comm::Welcome& welcome) {
  if (welcome.peers_size() != options_.world_size ||
      welcome.options().slice_bytes() == 0) {
    return absl::DataLossError(
        absl::StrCat("rank 0 (", options_.address, ") sent a table of ",
                     welcome.peers_size(),
                     " ranks, or options that this release does not know"));
  }
  world_.session = welcome.session();
  world_.options.slice_bytes = welcome.options().slice_bytes();
  SHOAL_ASSIGN_OR_RETURN(world_.options.policy, PolicyOf(welcome.options()));
  for (const comm::Peer& peer : welcome.peers()) {
    world_.peers.push_back({{peer.addresses().begin(), peer.addresses().end()},
                            peer.host_id(),
                            peer.pid()});
  }
  MeshOptions mesh_options;
  mesh_options.self = {options_.job_id, world_.session, options_.rank,
                       options_.world_size};
  for (int rank = 0; rank < options_.rank; ++rank) {
    SHOAL_ASSIGN_OR_RETURN(std::vector<SocketAddress> addresses,
                           AddressesOf(rank));
    mesh_options.addresses.push_back(std::move(addresses));
  }
  HelloAcceptorOptions acceptor_options;
  acceptor_options.hello_timeout = options_.hello_timeout;
  acceptor_options.log = [this](absl::string_view line) {
    options_.log(
        absl::StrCat("rank ", options_.rank, " at ", own_address_, " ", line));
  };
  SHOAL_ASSIGN_OR_RETURN(
      acceptor_,
      HelloAcceptor::Start(
          &loop_, std::move(listener_), std::move(acceptor_options),
          [this](comm::BootstrapMessage message,
                 std::shared_ptr<FramedConnection> connection) {
            absl::Status status = absl::FailedPreconditionError(absl::StrCat(
                connection->peer_name(), " did not ask for a link"));
            if (message.has_link_hello()) {
              status = mesh_->Take(message.link_hello(), connection);
            }
            if (!status.ok()) acceptor_->Refuse(std::move(connection), status);
          }));
  Enter(State::kLinking);
  mesh_ = Mesh::Start(&loop_, std::move(mesh_options), [this] { OnLinked(); });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SocketAddress>> Member::AddressesOf(int rank) const {
  // Rank 0 is where it was found, whatever it calls itself.
  if (rank == 0) {
    SHOAL_ASSIGN_OR_RETURN(SocketAddress found,
                           PeerAddress(host_->descriptor()));
    return std::vector<SocketAddress>{found};
  }
  std::vector<SocketAddress> result;
  for (const std::string& text : world_.peers[rank].addresses) {
    SHOAL_ASSIGN_OR_RETURN(const HostPort host_port, ParseHostPort(text));
    SHOAL_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                           Resolve(host_port));
    result.insert(result.end(), addresses.begin(), addresses.end());
  }
  if (result.empty()) {
    return absl::DataLossError(
        absl::StrCat("rank ", rank, " has not published an address"));
  }
  return result;
}

void Member::OnLinked() {
  if (state_ != State::kLinking) return;
  Enter(State::kReady);
  // Nobody who belongs to the job connects again before Go, so all that waits
  // now are strangers, and what comes later waits in the listener's queue.
  listener_ = acceptor_->Stop();
  comm::BootstrapMessage message;
  message.mutable_ready();
  host_->Write(EncodeBootstrap(message));
}

void Member::OnTimeout() {
  const std::string wait =
      absl::StrCat("within the join time-out of ",
                   absl::FormatDuration(options_.timeouts.join));
  switch (state_) {
    case State::kDialing:
      return Finish(absl::DeadlineExceededError(absl::StrCat(
          "rank ", options_.rank, " did not reach rank 0 at ", options_.address,
          " ", wait, ": ", dialer_->last_error().message(),
          "; start rank 0, or correct its address")));
    case State::kGreeting:
      return Finish(absl::DeadlineExceededError(absl::StrCat(
          "rank ", options_.rank, " is connected to rank 0's address ",
          options_.address, ", but nothing answered there ", wait,
          "; start rank 0, or correct its address")));
    case State::kWaiting:
      return GiveUp(absl::DeadlineExceededError(
          absl::StrCat("rank ", options_.rank, " joined rank 0 at ",
                       options_.address, ", but not all ranks did so ", wait)));
    case State::kLinking:
      return GiveUp(absl::DeadlineExceededError(absl::StrCat(
          "rank ", options_.rank, " had ", mesh_->Missing(), " ", wait)));
    case State::kReady:
      return GiveUp(absl::DeadlineExceededError(
          absl::StrCat("rank ", options_.rank,
                       " was ready, but not all ranks were ", wait)));
    case State::kLingering:
    case State::kDone:
      return;
  }
}

void Member::GiveUp(absl::Status status) {
  if (state_ == State::kLingering || state_ == State::kDone) return;
  failure_ = std::move(status);
  Enter(State::kLingering);
  if (mesh_ != nullptr) mesh_->Stop();
  host_->Write(EncodeFailure(failure_));
  linger_timer_.expires_after(TimerDuration(options_.timeouts.answer_window));
  linger_timer_.async_wait([this](const ErrorCode& error) {
    if (!error) Finish(failure_);
  });
}

void Member::Finish(absl::Status status) {
  failure_ = std::move(status);
  Enter(State::kDone);
}

JoinedWorld Member::TakeWorld() {
  world_.listener = std::move(listener_);
  world_.collective = mesh_->TakeLinks(comm::LinkHello::COLLECTIVE);
  world_.control = mesh_->TakeLinks(comm::LinkHello::CONTROL);
  // Later connections go to where rank 0 was found, whatever it calls itself.
  std::vector<std::string>& addresses = world_.peers[0].addresses;
  addresses.insert(addresses.begin(), host_->peer_name());
  world_.control[0] = host_->Release();
  return std::move(world_);
}

}  // namespace

absl::StatusOr<JoinedWorld> BootstrapAsMember(BootstrapOptions options) {
  SHOAL_ASSIGN_OR_RETURN(HostPort host, ParseHostPort(options.address));
  return Member(std::move(options)).Run(std::move(host));
}

}  // namespace shoal::internal
