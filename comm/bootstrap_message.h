// SPDX-License-Identifier: Apache-2.0
//
// The messages of bootstrap.proto as bytes, with everything that arrives
// checked.
//
// Thread-safe.

#ifndef SHOAL_COMM_BOOTSTRAP_MESSAGE_H_
#define SHOAL_COMM_BOOTSTRAP_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shoal/base/dialect.h"
#include "shoal/comm/bootstrap.pb.h"

namespace shoal::internal {

// The payload of a frame.
std::string EncodeBootstrap(const comm::BootstrapMessage& message);

// `DATA_LOSS` when the bytes are no such message, or one of its texts or lists
// is longer than any rank makes it.
absl::StatusOr<comm::BootstrapMessage> DecodeBootstrap(
    absl::string_view payload);

// `text` as protobuf can carry it: at most `max_bytes` of it, and a question
// mark for each byte that is not ASCII, since a status may hold anything.
std::string WireText(absl::string_view text, std::size_t max_bytes);

// The payload that tells `status` (not OK), and the status that was told. A
// code that is none becomes `UNKNOWN`.
std::string EncodeFailure(const absl::Status& status);
absl::Status FailureStatus(const comm::Failure& failure);

// Whether `hello` may join the job: `FAILED_PRECONDITION` says what the two
// sides disagree on. `sender` is how messages name it ("127.0.0.1:4711").
absl::Status CheckHello(const comm::Hello& hello, absl::string_view job_id,
                        int world_size, absl::string_view sender);

// Who asks for a link, and what a rank expects of it.
struct LinkExpectation {
  std::string job_id;
  std::uint64_t session = 0;
  int rank = 0;
  int world_size = 0;
};

// `FAILED_PRECONDITION` unless `hello` is of the same job and meant for this
// rank, and its sender is another rank of the world.
absl::Status CheckLinkHello(const comm::LinkHello& hello,
                            const LinkExpectation& expected,
                            absl::string_view sender);

}  // namespace shoal::internal

#endif  // SHOAL_COMM_BOOTSTRAP_MESSAGE_H_
