// SPDX-License-Identifier: Apache-2.0
//
// OpenMPI's collectives. Started by mpirun, a process a rank.

#include <mpi.h>

#include <iostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/tools/peers/peer_sweep.h"

namespace shoal::peers {
namespace {

class MpiWorld : public PeerWorld {
 public:
  MpiWorld() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  double Max(double value) override {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

void PingPong(int rank, std::vector<float>* data) {
  const int count = static_cast<int>(data->size());
  const auto send = [&](int to) {
    MPI_Send(data->data(), count, MPI_FLOAT, to, 0, MPI_COMM_WORLD);
  };
  const auto receive = [&](int from) {
    MPI_Recv(data->data(), count, MPI_FLOAT, from, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  };
  if (rank == 0) {
    send(1);
    receive(1);
  } else if (rank == 1) {
    receive(0);
    send(0);
  }
}

// An error of MPI ends the program: that is its default.
void Call(const std::string& collective, int rank, Buffers* buffers) {
  float* input = buffers->input.data();
  float* output = buffers->output.data();
  const int count = static_cast<int>(buffers->count);
  const int part = static_cast<int>(buffers->part);
  if (collective == "all_reduce") {
    MPI_Allreduce(MPI_IN_PLACE, output, count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  } else if (collective == "reduce_scatter") {
    MPI_Reduce_scatter_block(input, output, part, MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
  } else if (collective == "all_gather") {
    MPI_Allgather(input, part, MPI_FLOAT, output, part, MPI_FLOAT,
                  MPI_COMM_WORLD);
  } else if (collective == "broadcast") {
    MPI_Bcast(output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  } else if (collective == "all_to_all") {
    MPI_Alltoall(input, part, MPI_FLOAT, output, part, MPI_FLOAT,
                 MPI_COMM_WORLD);
  } else {
    PingPong(rank, &buffers->output);
  }
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MpiWorld world;
  const absl::StatusOr<Flags> flags = ParseFlags(argc, argv);
  int result = 2;
  if (!flags.ok()) {
    if (world.rank() == 0) std::cerr << flags.status().message() << std::endl;
  } else {
    result = Sweep(&world, *flags, [&](Buffers* buffers) {
      return std::vector<Variant>{{"default", [&flags, &world, buffers] {
                                     Call(flags->collective, world.rank(),
                                          buffers);
                                   }}};
    });
  }
  MPI_Finalize();
  return result;
}

}  // namespace
}  // namespace shoal::peers

int main(int argc, char** argv) { return shoal::peers::Main(argc, argv); }
