// SPDX-License-Identifier: Apache-2.0
//
// Messages between the neighbouring stages of a pipeline.
//
// A pipeline over a communicator runs backwards: stage 0, which owns the first
// layers, is the highest rank, and the last stage is rank 0, so that
// activations flow world_size() - 1 -> ... -> 1 -> 0 (partition's
// pipeline_partition.h has the same order, and its source). This class knows
// that order, so that the code of a stage need not.
//
// Each message carries the number of its micro-batch as its tag: micro-batches
// may be received in another order than they were sent in. Activations and
// gradients do not mix.
//
// Lifetime: the communicator is the caller's and has to outlive this. Errors
// and thread rules are those of the communicator's Send and Recv; besides, a
// stage that has no neighbour on that side is refused with INVALID_ARGUMENT.

#ifndef SHOAL_COMM_PIPELINE_H_
#define SHOAL_COMM_PIPELINE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shoal/comm/communicator.h"

namespace shoal {

class PipelineChannel {
 public:
  // Micro-batches are numbered from 0 to kMaxMicroBatch.
  static constexpr int kMaxMicroBatch = (1 << 30) - 1;

  // `INVALID_ARGUMENT` for a null communicator.
  static absl::StatusOr<PipelineChannel> Create(Communicator* communicator);

  // 0 for the stage that owns the first layers.
  int stage() const;
  int num_stages() const;
  bool is_first_stage() const { return stage() == 0; }
  bool is_last_stage() const { return stage() == num_stages() - 1; }

  // The input of this stage, from the one before it. Not for the first stage.
  absl::Status RecvActivations(Buffer buffer, int micro_batch,
                               const CallOptions& options = {});

  // The output of this stage, to the one after it. Not for the last stage.
  absl::Status SendActivations(ConstBuffer buffer, int micro_batch,
                               const CallOptions& options = {});

  // The gradient of this stage's output, from the one after it. Not for the
  // last stage.
  absl::Status RecvGradients(Buffer buffer, int micro_batch,
                             const CallOptions& options = {});

  // The gradient of this stage's input, to the one before it. Not for the first
  // stage.
  absl::Status SendGradients(ConstBuffer buffer, int micro_batch,
                             const CallOptions& options = {});

 private:
  explicit PipelineChannel(Communicator* communicator)
      : communicator_(communicator) {}

  Communicator* communicator_;
};

}  // namespace shoal

#endif  // SHOAL_COMM_PIPELINE_H_
