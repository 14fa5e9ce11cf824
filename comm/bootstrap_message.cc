// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/bootstrap_message.h"

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/comm/bootstrap.pb.h"
#include "shoal/comm/frame.h"

namespace shoal::internal {
namespace {

// Far above what ranks send; they keep a liar's message from being carried on.
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxFailureBytes = 16 * 1024;
constexpr int kMaxAddresses = 64;

template <typename Addresses>
bool AddressesAreSane(const Addresses& addresses) {
  if (addresses.size() > kMaxAddresses) return false;
  for (const std::string& address : addresses) {
    if (address.size() > kMaxNameBytes) return false;
  }
  return true;
}

bool IsSane(const comm::BootstrapMessage& message) {
  switch (message.kind_case()) {
    case comm::BootstrapMessage::kHello:
      return message.hello().job_id().size() <= kMaxNameBytes &&
             message.hello().host_id().size() <= kMaxNameBytes &&
             AddressesAreSane(message.hello().addresses());
    case comm::BootstrapMessage::kWelcome:
      for (const comm::Peer& peer : message.welcome().peers()) {
        if (!AddressesAreSane(peer.addresses())) return false;
        if (peer.host_id().size() > kMaxNameBytes) return false;
      }
      return true;
    case comm::BootstrapMessage::kLinkHello:
      return message.link_hello().job_id().size() <= kMaxNameBytes;
    case comm::BootstrapMessage::kFailure:
      return message.failure().text().size() <= kMaxFailureBytes;
    case comm::BootstrapMessage::kHelloAccepted:
    case comm::BootstrapMessage::kLinkAccepted:
    case comm::BootstrapMessage::kReady:
    case comm::BootstrapMessage::kGo:
      return true;
    case comm::BootstrapMessage::KIND_NOT_SET:
      return false;
  }
  return false;
}

}  // namespace

std::string EncodeBootstrap(const comm::BootstrapMessage& message) {
  return message.SerializeAsString();
}

absl::StatusOr<comm::BootstrapMessage> DecodeBootstrap(
    absl::string_view payload) {
  comm::BootstrapMessage message;
  if (!message.ParseFromArray(payload.data(),
                              static_cast<int>(payload.size()))) {
    return absl::DataLossError("its message cannot be parsed");
  }
  if (!IsSane(message)) {
    return absl::DataLossError("its message makes no sense");
  }
  return message;
}

std::string WireText(absl::string_view text, std::size_t max_bytes) {
  std::string clean(text.substr(0, max_bytes));
  for (char& character : clean) {
    if (static_cast<unsigned char>(character) >= 0x80) character = '?';
  }
  return clean;
}

std::string EncodeFailure(const absl::Status& status) {
  comm::BootstrapMessage message;
  message.mutable_failure()->set_code(static_cast<int>(status.code()));
  message.mutable_failure()->set_text(
      WireText(status.message(), kMaxFailureBytes));
  return EncodeBootstrap(message);
}

absl::Status FailureStatus(const comm::Failure& failure) {
  const bool known =
      failure.code() > static_cast<int>(absl::StatusCode::kOk) &&
      failure.code() <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(failure.code())
                            : absl::StatusCode::kUnknown,
                      failure.text());
}

absl::Status CheckHello(const comm::Hello& hello, absl::string_view job_id,
                        int world_size, absl::string_view sender) {
  if (hello.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(sender, " speaks version ", hello.protocol_version(),
                     " of Shoal's protocol, and rank 0 version ",
                     kProtocolVersion, "; run the same release everywhere"));
  }
  if (hello.job_id() != job_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(sender, " is of job \"", absl::CEscape(hello.job_id()),
                     "\", and rank 0 of job \"", absl::CEscape(job_id),
                     "\"; give each job an address of its own"));
  }
  if (hello.world_size() != static_cast<unsigned>(world_size)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", hello.rank(), " (", sender, ") counts ", hello.world_size(),
        " ranks in the world, and rank 0 counts ", world_size,
        "; start all ranks with the same world size"));
  }
  if (hello.rank() == 0 || hello.rank() >= hello.world_size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(sender, " says that it is rank ", hello.rank(),
                     hello.rank() == 0 ? ", which is here already" : "", " of ",
                     world_size, "; give every rank a number of its own"));
  }
  return absl::OkStatus();
}

absl::Status CheckLinkHello(const comm::LinkHello& hello,
                            const LinkExpectation& expected,
                            absl::string_view sender) {
  if (hello.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        sender, " speaks version ", hello.protocol_version(),
        " of Shoal's protocol, and this rank version ", kProtocolVersion));
  }
  if (hello.job_id() != expected.job_id ||
      hello.session() != expected.session) {
    return absl::FailedPreconditionError(
        absl::StrCat(sender, " is of job \"", absl::CEscape(hello.job_id()),
                     "\" or of another run of it"));
  }
  if (hello.to() != static_cast<unsigned>(expected.rank)) {
    return absl::FailedPreconditionError(
        absl::StrCat(sender, " looks for rank ", hello.to(),
                     ", and this is rank ", expected.rank));
  }
  if (hello.from() >= static_cast<unsigned>(expected.world_size) ||
      hello.from() == hello.to()) {
    return absl::FailedPreconditionError(
        absl::StrCat(sender, " says that it is rank ", hello.from(), " of ",
                     expected.world_size));
  }
  return absl::OkStatus();
}

}  // namespace shoal::internal
