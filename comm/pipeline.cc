// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/pipeline.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/communicator.h"

namespace shoal {
namespace {

enum class Content { kActivations = 0, kGradients = 1 };

// The tag of a micro-batch's activations or gradients.
absl::StatusOr<int> Tag(absl::string_view method, int micro_batch,
                        Content content) {
  if (micro_batch < 0 || micro_batch > PipelineChannel::kMaxMicroBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat(method, ": micro-batch ", micro_batch, " is outside [0, ",
                     PipelineChannel::kMaxMicroBatch, "]"));
  }
  return 2 * micro_batch + static_cast<int>(content);
}

absl::Status NoNeighbour(absl::string_view method, int stage, int num_stages,
                         absl::string_view side) {
  return absl::InvalidArgumentError(
      absl::StrCat(method, ": stage ", stage, " of ", num_stages,
                   " has no stage ", side, " it"));
}

}  // namespace

absl::StatusOr<PipelineChannel> PipelineChannel::Create(
    Communicator* communicator) {
  if (communicator == nullptr) {
    return absl::InvalidArgumentError(
        "PipelineChannel: the communicator is null");
  }
  return PipelineChannel(communicator);
}

int PipelineChannel::stage() const {
  return communicator_->world_size() - 1 - communicator_->rank();
}

int PipelineChannel::num_stages() const { return communicator_->world_size(); }

absl::Status PipelineChannel::RecvActivations(Buffer buffer, int micro_batch,
                                              const CallOptions& options) {
  constexpr absl::string_view kMethod = "RecvActivations";
  if (is_first_stage()) {
    return NoNeighbour(kMethod, stage(), num_stages(), "before");
  }
  SHOAL_ASSIGN_OR_RETURN(const int tag,
                         Tag(kMethod, micro_batch, Content::kActivations));
  return communicator_->Recv(buffer, communicator_->rank() + 1, tag, options);
}

absl::Status PipelineChannel::SendActivations(ConstBuffer buffer,
                                              int micro_batch,
                                              const CallOptions& options) {
  constexpr absl::string_view kMethod = "SendActivations";
  if (is_last_stage()) {
    return NoNeighbour(kMethod, stage(), num_stages(), "after");
  }
  SHOAL_ASSIGN_OR_RETURN(const int tag,
                         Tag(kMethod, micro_batch, Content::kActivations));
  return communicator_->Send(buffer, communicator_->rank() - 1, tag, options);
}

absl::Status PipelineChannel::RecvGradients(Buffer buffer, int micro_batch,
                                            const CallOptions& options) {
  constexpr absl::string_view kMethod = "RecvGradients";
  if (is_last_stage()) {
    return NoNeighbour(kMethod, stage(), num_stages(), "after");
  }
  SHOAL_ASSIGN_OR_RETURN(const int tag,
                         Tag(kMethod, micro_batch, Content::kGradients));
  return communicator_->Recv(buffer, communicator_->rank() - 1, tag, options);
}

absl::Status PipelineChannel::SendGradients(ConstBuffer buffer, int micro_batch,
                                            const CallOptions& options) {
  constexpr absl::string_view kMethod = "SendGradients";
  if (is_first_stage()) {
    return NoNeighbour(kMethod, stage(), num_stages(), "before");
  }
  SHOAL_ASSIGN_OR_RETURN(const int tag,
                         Tag(kMethod, micro_batch, Content::kGradients));
  return communicator_->Send(buffer, communicator_->rank() + 1, tag, options);
}

}  // namespace shoal
