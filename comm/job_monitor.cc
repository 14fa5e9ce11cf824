// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/job_monitor.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/control_plane.h"
#include "shoal/comm/control_wire.h"
#include "shoal/comm/failure_domain.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/framed_connection.h"
#include "shoal/comm/hello_acceptor.h"
#include "shoal/comm/loop_timer.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/service_thread.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// A verdict takes a few of the plane's time-outs at most (a grace, an answer
// window, and a grace for what the answers set off).
constexpr int kVerdictFactor = 4;

}  // namespace

absl::StatusOr<std::shared_ptr<JobMonitor>> JobMonitor::Start(
    ServiceThread* service, JobMonitorOptions options) {
  std::shared_ptr<JobMonitor> monitor(
      new JobMonitor(service->loop(), std::move(options)));
  std::promise<absl::Status> started;
  asio::post(*service->loop(), [&monitor, &started] {
    // Whatever happens there, the caller waits for an answer.
    absl::Status status = absl::ResourceExhaustedError(
        "no memory to watch the connections of a job");
    try {
      status = monitor->StartOnLoop();
    } catch (const std::bad_alloc&) {
    }
    started.set_value(std::move(status));
  });
  const absl::Status status = started.get_future().get();
  if (!status.ok()) {
    monitor->Close();
    return status;
  }
  return monitor;
}

JobMonitor::JobMonitor(asio::io_context* loop, JobMonitorOptions options)
    : loop_(loop),
      options_(std::move(options)),
      timer_(*loop),
      connections_(options_.self.world_size),
      plane_(options_.self.rank, options_.rank_names,
             {options_.timeouts.grace, options_.timeouts.answer_window},
             options_.report) {}

absl::Status JobMonitor::StartOnLoop() {
  HelloAcceptorOptions acceptor_options;
  acceptor_options.log = [this](absl::string_view line) {
    options_.log(
        absl::StrCat(options_.rank_names[options_.self.rank], " ", line));
  };
  SHOAL_ASSIGN_OR_RETURN(
      acceptor_,
      HelloAcceptor::Start(
          loop_, std::move(options_.listener), std::move(acceptor_options),
          [this](comm::BootstrapMessage message,
                 std::shared_ptr<FramedConnection> connection) {
            OnFirstMessage(message, std::move(connection));
          }));
  for (std::size_t peer = 0; peer < connections_.size(); ++peer) {
    GuardedDescriptor& socket = options_.control[peer];
    if (!socket.valid()) continue;
    SHOAL_ASSIGN_OR_RETURN(connections_[peer],
                           FramedConnection::Create(loop_, std::move(socket),
                                                    kMaxStrangerPayload));
    Watch(static_cast<int>(peer));
  }
  return absl::OkStatus();
}

// The control links.

void JobMonitor::Watch(int peer) {
  connections_[peer]->ReadFrame(
      [this, peer](absl::StatusOr<std::string> payload) {
        OnFrame(peer, std::move(payload));
      });
}

void JobMonitor::OnFrame(int peer, absl::StatusOr<std::string> payload) {
  if (!payload.ok()) return OnEnd(peer, payload.status());
  const absl::StatusOr<ControlMessage> message = DecodeControl(*payload);
  if (!message.ok()) return OnEnd(peer, message.status());
  {
    MutexLock lock(&mutex_);
    plane_.OnMessage(peer, *message);
    Publish();
  }
  Watch(peer);
}

void JobMonitor::OnEnd(int peer, const absl::Status& reason) {
  if (closing_) return ReleaseConnection(peer);
  connections_[peer]->Close();
  MutexLock lock(&mutex_);
  plane_.OnEndOfStream(peer, reason.message(), MonotonicNow());
  Publish();
}

void JobMonitor::Publish() {
  if (plane_.failed() && !failed_.load(std::memory_order_relaxed)) {
    status_ = plane_.status();
    failed_.store(true, std::memory_order_release);
    options_.on_failed();
    changed_.SignalAll();
  }
  int peer = -1;
  ControlMessage message;
  while (plane_.TakeOutgoing(&peer, &message)) {
    outbox_.emplace_back(peer, EncodeControl(message));
  }
  if (std::exchange(carry_posted_, true)) return;
  asio::post(*loop_, [self = shared_from_this()] { self->CarryMessages(); });
}

void JobMonitor::CarryMessages() {
  std::vector<std::pair<int, std::string>> outbox;
  absl::Time next_tick;
  {
    MutexLock lock(&mutex_);
    carry_posted_ = false;
    outbox.swap(outbox_);
    next_tick = plane_.next_tick();
  }
  for (const auto& [peer, payload] : outbox) {
    if (connections_[peer] != nullptr) connections_[peer]->Write(payload);
  }
  if (!closing_) ArmTimer(next_tick);
}

void JobMonitor::ArmTimer(absl::Time at) {
  if (at == absl::InfiniteFuture()) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(TimerDuration(at - MonotonicNow()));
  timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (error || self->closing_) return;
    MutexLock lock(&self->mutex_);
    self->plane_.Tick(MonotonicNow());
    self->Publish();
  });
}

// The listener.

void JobMonitor::OnFirstMessage(const comm::BootstrapMessage& message,
                                std::shared_ptr<FramedConnection> connection) {
  absl::Status status = absl::FailedPreconditionError(absl::StrCat(
      connection->peer_name(), " did not ask for a link; the world is whole"));
  if (message.has_link_hello()) {
    status = TakeLink(message.link_hello(), connection.get());
  }
  if (!status.ok()) acceptor_->Refuse(std::move(connection), status);
}

absl::Status JobMonitor::TakeLink(const comm::LinkHello& hello,
                                  FramedConnection* connection) {
  SHOAL_RETURN_IF_ERROR(
      CheckLinkHello(hello, options_.self, connection->peer_name()));
  const LinkDescription link = {hello.communicator(), hello.purpose(),
                                static_cast<int>(hello.from())};
  return options_.on_link(link, [connection] { return connection->Release(); });
}

// From any thread.

absl::Status JobMonitor::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

void JobMonitor::Fail(int culprit, const absl::Status& status) {
  MutexLock lock(&mutex_);
  plane_.OnLocalFailure(culprit, status);
  Publish();
}

absl::Status JobMonitor::FailAfterLostLink(int peer,
                                           const std::string& operation) {
  MutexLock lock(&mutex_);
  plane_.OnDataLinkLost(peer, operation, MonotonicNow());
  Publish();
  return AwaitVerdict(kVerdictFactor * options_.timeouts.grace, peer,
                      absl::UnavailableError(absl::StrCat(
                          "lost the connection to ", options_.rank_names[peer],
                          " in ", operation)));
}

absl::Status JobMonitor::FailAfterTimeout(const OperationReport& report,
                                          absl::Duration timeout) {
  MutexLock lock(&mutex_);
  plane_.OnOperationTimeout(report, timeout, MonotonicNow());
  Publish();
  return AwaitVerdict(kVerdictFactor * (options_.timeouts.grace +
                                        options_.timeouts.answer_window),
                      -1,
                      absl::DeadlineExceededError(
                          absl::StrCat(report.operation, " is not done after ",
                                       absl::FormatDuration(timeout))));
}

absl::Status JobMonitor::AwaitVerdict(absl::Duration bound, int culprit,
                                      const absl::Status& otherwise) {
  const absl::Time deadline = MonotonicNow() + bound;
  while (!plane_.failed()) {
    const absl::Duration left = deadline - MonotonicNow();
    if (left > absl::ZeroDuration()) {
      changed_.WaitFor(&mutex_, TimerDuration(left));
    } else {
      // The loop has not come to it: the machine is out of breath.
      plane_.OnLocalFailure(culprit, otherwise);
      Publish();
    }
  }
  return status_;
}

void JobMonitor::SayGoodbye() {
  MutexLock lock(&mutex_);
  plane_.OnGoodbye();
  Publish();
}

// Leaving the loop.

void JobMonitor::Close() {
  const absl::Time deadline = MonotonicNow() + options_.timeouts.close;
  asio::post(*loop_, [self = shared_from_this()] { self->BeginClose(); });
  std::vector<GuardedDescriptor> sockets;
  {
    MutexLock lock(&mutex_);
    while (unreleased_ != 0 && MonotonicNow() < deadline) {
      changed_.WaitFor(&mutex_, TimerDuration(deadline - MonotonicNow()));
    }
    if (unreleased_ != 0) {
      // Some peer takes nothing any more.
      asio::post(*loop_, [self = shared_from_this()] { self->ReleaseAll(); });
      while (unreleased_ != 0) changed_.Wait(&mutex_);
    }
    sockets.swap(released_);
  }
  DrainAndClose(std::move(sockets), deadline);
}

void JobMonitor::BeginClose() {
  closing_ = true;
  timer_.cancel();
  if (acceptor_ != nullptr) acceptor_->Stop().Close();
  acceptor_ = nullptr;
  CarryMessages();
  std::vector<int> open;
  for (std::size_t peer = 0; peer < connections_.size(); ++peer) {
    if (connections_[peer] != nullptr &&
        connections_[peer]->descriptor() >= 0) {
      open.push_back(static_cast<int>(peer));
    }
  }
  {
    MutexLock lock(&mutex_);
    unreleased_ = static_cast<int>(open.size());
    changed_.SignalAll();
  }
  for (const int peer : open) {
    connections_[peer]->OnFlushed([this, peer] { ReleaseConnection(peer); });
  }
}

void JobMonitor::ReleaseConnection(int peer) {
  GuardedDescriptor socket = connections_[peer]->Release();
  connections_[peer] = nullptr;
  MutexLock lock(&mutex_);
  released_.push_back(std::move(socket));
  --unreleased_;
  changed_.SignalAll();
}

void JobMonitor::ReleaseAll() {
  for (std::size_t peer = 0; peer < connections_.size(); ++peer) {
    if (connections_[peer] != nullptr &&
        connections_[peer]->descriptor() >= 0) {
      ReleaseConnection(static_cast<int>(peer));
    }
  }
}

}  // namespace shoal::internal
