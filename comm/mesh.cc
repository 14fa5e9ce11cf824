// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/mesh.h"

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/bootstrap_message.h"
#include "shoal/comm/dialer.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/frame.h"
#include "shoal/comm/framed_connection.h"

namespace shoal::internal {

namespace asio = boost::asio;

std::shared_ptr<Mesh> Mesh::Start(asio::io_context* loop, MeshOptions options,
                                  std::function<void()> on_complete) {
  std::shared_ptr<Mesh> mesh(
      new Mesh(loop, std::move(options), std::move(on_complete)));
  for (Slot& slot : mesh->slots_) {
    if (slot.peer < mesh->options_.self.rank) mesh->Dial(&slot);
  }
  return mesh;
}

Mesh::Mesh(asio::io_context* loop, MeshOptions options,
           std::function<void()> on_complete)
    : loop_(loop),
      options_(std::move(options)),
      on_complete_(std::move(on_complete)) {
  const int rank = options_.self.rank;
  for (int peer = 0; peer < options_.self.world_size; ++peer) {
    if (peer == rank) continue;
    slots_.push_back({comm::LinkHello::COLLECTIVE, peer, nullptr, nullptr, {}});
    if (peer == 0 || rank == 0) continue;
    slots_.push_back({comm::LinkHello::CONTROL, peer, nullptr, nullptr, {}});
  }
  missing_ = static_cast<int>(slots_.size());
}

void Mesh::Dial(Slot* slot) {
  slot->dialer = Dialer::Start(
      loop_, [addresses = options_.addresses[slot->peer]] { return addresses; },
      [self = shared_from_this(), slot](GuardedDescriptor socket) {
        self->Introduce(slot, std::move(socket));
      });
}

void Mesh::Introduce(Slot* slot, GuardedDescriptor socket) {
  absl::StatusOr<std::shared_ptr<FramedConnection>> connection =
      FramedConnection::Create(loop_, std::move(socket), kMaxStrangerPayload);
  if (!connection.ok()) return slot->dialer->Retry(connection.status());
  slot->connection = *std::move(connection);
  comm::BootstrapMessage message;
  comm::LinkHello* const hello = message.mutable_link_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_job_id(options_.self.job_id);
  hello->set_session(options_.self.session);
  hello->set_from(options_.self.rank);
  hello->set_to(slot->peer);
  hello->set_purpose(slot->purpose);
  slot->connection->Write(EncodeBootstrap(message));
  slot->connection->ReadFrame(
      [self = shared_from_this(), slot](absl::StatusOr<std::string> payload) {
        self->OnAnswer(slot, std::move(payload));
      });
}

void Mesh::OnAnswer(Slot* slot, absl::StatusOr<std::string> payload) {
  absl::StatusOr<comm::BootstrapMessage> answer =
      payload.ok() ? DecodeBootstrap(*payload)
                   : absl::StatusOr<comm::BootstrapMessage>(payload.status());
  if (answer.ok() && answer->has_link_accepted()) return Complete(slot);
  std::string why = "it answered with another message";
  if (!answer.ok()) why = std::string(answer.status().message());
  if (answer.ok() && answer->has_failure()) why = answer->failure().text();
  absl::Status error = absl::UnavailableError(
      absl::StrCat("at ", slot->connection->peer_name(), ": ", why));
  slot->connection->Close();
  slot->connection = nullptr;
  slot->dialer->Retry(std::move(error));
}

absl::Status Mesh::Take(const comm::LinkHello& hello,
                        std::shared_ptr<FramedConnection> connection) {
  const absl::Status good =
      CheckLinkHello(hello, options_.self, connection->peer_name());
  if (!good.ok()) return good;
  Slot* const slot = FindSlot(hello.purpose(), static_cast<int>(hello.from()));
  if (slot == nullptr || slot->peer < options_.self.rank ||
      hello.communicator() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", hello.from(), " (", connection->peer_name(),
                     ") asks for a link that it should not ask for"));
  }
  if (slot->link.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", hello.from(), " (", connection->peer_name(),
                     ") asks for a link that is there already"));
  }
  // The peer has lost patience with the connection that it had before.
  if (slot->connection != nullptr) slot->connection->Close();
  slot->connection = std::move(connection);
  comm::BootstrapMessage message;
  message.mutable_link_accepted();
  slot->connection->Write(EncodeBootstrap(message));
  slot->connection->OnFlushed(
      [self = shared_from_this(), slot] { self->Complete(slot); });
  return absl::OkStatus();
}

void Mesh::Complete(Slot* slot) {
  slot->link = slot->connection->Release();
  slot->connection = nullptr;
  if (slot->dialer != nullptr) slot->dialer->Stop();
  if (--missing_ == 0) std::exchange(on_complete_, nullptr)();
}

Mesh::Slot* Mesh::FindSlot(comm::LinkHello::Purpose purpose, int peer) {
  for (Slot& slot : slots_) {
    if (slot.purpose == purpose && slot.peer == peer) return &slot;
  }
  return nullptr;
}

std::string Mesh::Missing() const {
  std::vector<std::string> parts;
  for (const Slot& slot : slots_) {
    if (slot.link.valid()) continue;
    if (slot.peer > options_.self.rank) {
      parts.push_back(absl::StrCat("no link from rank ", slot.peer));
    } else {
      parts.push_back(absl::StrCat("no link to rank ", slot.peer, " (",
                                   slot.dialer->last_error().ok()
                                       ? "no answer"
                                       : slot.dialer->last_error().message(),
                                   ")"));
    }
  }
  return absl::StrJoin(parts, "; ");
}

std::vector<GuardedDescriptor> Mesh::TakeLinks(
    comm::LinkHello::Purpose purpose) {
  std::vector<GuardedDescriptor> links(options_.self.world_size);
  for (Slot& slot : slots_) {
    if (slot.purpose == purpose) links[slot.peer] = std::move(slot.link);
  }
  return links;
}

void Mesh::Stop() {
  on_complete_ = nullptr;
  for (Slot& slot : slots_) {
    if (slot.dialer != nullptr) slot.dialer->Stop();
    if (slot.connection != nullptr) slot.connection->Close();
  }
}

}  // namespace shoal::internal
